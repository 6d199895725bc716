"""The event log and the approvals of runs."""
