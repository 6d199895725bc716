"""Our native agent beside mini-swe-agent, on the same scripted tasks."""
