"""Runs whose parts are killed at random moments, and runs that are cancelled."""
