"""What the gateway costs on top of the same litellm call made directly."""
