"""The `harness` command, one file per group of commands."""
