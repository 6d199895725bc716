"""The command line and the web pages."""
