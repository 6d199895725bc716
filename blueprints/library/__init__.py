"""The built-in blueprints."""
