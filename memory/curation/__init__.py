"""Curation: notes and examples that a model proposes from runs, for a person to approve."""
