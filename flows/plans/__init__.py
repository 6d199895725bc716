"""Plans made from a prompt: planned, checked, run, reported."""
