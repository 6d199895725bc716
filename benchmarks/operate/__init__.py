"""A household at work: how soon runs begin, how soon they are gone, and what a queue costs."""
