"""How a project installs and tests itself, found out from its files."""
