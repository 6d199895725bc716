"""How fast memory answers, how well it finds, and whether it keeps every count."""
