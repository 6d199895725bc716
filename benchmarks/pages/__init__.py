"""The pages: how long a list takes, and when a browser first paints it."""
