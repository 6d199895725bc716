"""Agents that can do an agentic node."""
