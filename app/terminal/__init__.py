"""Shared by the commands: options, output, live view, prompts."""
