"""Plans made from a prompt: draft, check, run, report."""
