"""The only top-level name that is surely ours: other projects have an `app` or a `policy` too."""
