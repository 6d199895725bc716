"""Programs of the daemons and of runs under a worker, and the local stack."""
