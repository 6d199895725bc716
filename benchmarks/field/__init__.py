"""`fix-tests` on real projects, each with one planted bug, as a new user would start it."""
