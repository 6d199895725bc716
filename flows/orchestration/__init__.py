"""Prefect flows and tasks."""
