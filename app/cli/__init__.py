"""The commands of `harness`, one module for each group."""
