"""Floor 1: the node types, and how one node is executed."""
