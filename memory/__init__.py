"""Playbooks, notes and examples in one database, with their search and curation."""
