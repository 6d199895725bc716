"""How a project is installed and tested, detected from its files."""
