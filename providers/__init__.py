"""Room of floor 1: models, by litellm or scripted, behind `complete` and `embed`."""
