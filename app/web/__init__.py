"""Pages for people: runs, memory, and what agents are given. Served from our own files only."""
