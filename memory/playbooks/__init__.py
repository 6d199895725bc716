"""Playbooks: storage, search, rendering for prompts, executions and credit."""
