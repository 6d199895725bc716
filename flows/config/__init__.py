"""Settings, the environment and the tables of harness.toml."""
