"""Notes and examples: stored, ranked, injected into prompts."""
