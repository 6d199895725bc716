"""Playbooks: stored, searched, rendered, credited."""
