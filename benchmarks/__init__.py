"""What `make bench` measures: ratios within one run, against a stated baseline."""
