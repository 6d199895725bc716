"""The demo: a small repository with a failing test, and scripted model replies that fix it."""
