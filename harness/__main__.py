"""`python -m harness` runs the command `harness`."""

from harness.start import main

main()
