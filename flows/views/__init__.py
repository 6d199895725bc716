"""Views of runs and plans as JSON, and exports of the event log. Nothing here decides."""
