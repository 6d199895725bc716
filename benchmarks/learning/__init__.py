"""Figures of learning: which playbooks are followed, and whether planted rules are learned."""
