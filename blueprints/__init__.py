"""Floor 2: blueprints, and the loop that runs their nodes."""
