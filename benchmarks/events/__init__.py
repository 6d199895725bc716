"""How fast the event log takes events in, and how fast it is looked through."""
