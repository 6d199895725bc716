"""Plans: parsed, checked, executed step by step, approved."""
