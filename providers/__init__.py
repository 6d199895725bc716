"""Models, by litellm or scripted, and the gateway that agents reach them through."""
