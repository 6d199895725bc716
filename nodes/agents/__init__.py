"""The agents of agentic nodes."""
