"""Floor 0: immutable types, function types and errors that every other room shares."""
