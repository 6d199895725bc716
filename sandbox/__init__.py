"""Room of floor 1: containers, files, git workspaces; the only door to docker and git."""
