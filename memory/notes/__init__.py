"""Notes and examples: stored, searched, and rendered into prompts."""
