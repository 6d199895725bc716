"""How fast the policy decides, and how little it nags."""
