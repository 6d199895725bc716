"""Decisions about the tool calls of agents and the files they change."""
