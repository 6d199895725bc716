"""Room of floor 1: the four node types and how one is executed."""
