"""Shared by the commands: options, output, the live view, questions to the user."""
