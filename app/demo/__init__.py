"""The demo: a small repository with a failing test, and a script for a model that mends it."""
