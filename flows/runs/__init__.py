"""Files of a run: request, state, checkpoints, report."""
