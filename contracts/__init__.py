"""Floor 0: the frozen types, function types and errors that every other room shares."""
