"""Floor 4: the command line and the pages."""
