"""`python -m app` is `harness`."""

from app.start import main

main()
