"""Playbooks: what worked before, kept in a database, found again, and measured."""
