"""The append-only event log: verify, merge, replay, taint."""
