"""`python -m app` runs `harness`."""

from app.start import main

main()
