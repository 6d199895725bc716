"""How much code one command executes: what a reader has to know to follow it."""
