"""Memory around a run: what it is shown, what it leaves."""
