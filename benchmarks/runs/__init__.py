"""A whole run against a bare Prefect flow, and how fast the command line is there."""
