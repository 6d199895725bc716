"""Plans and policy: a prompt becomes a plan, and untrusted data never becomes an action."""
