"""Room of floor 1: the node types and how a node is executed."""
