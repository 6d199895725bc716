"""`python -m app` is `harness`."""

from app.cli import main

main()
