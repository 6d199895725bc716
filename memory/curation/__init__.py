"""Entries proposed by a model from finished runs, decided by a person."""
