"""Floor 3: the only one that knows Prefect; settings and wiring live here."""
