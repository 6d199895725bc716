"""Floor 2: what a run is, and the loop that runs it."""
