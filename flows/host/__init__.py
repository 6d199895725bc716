"""Processes that stay: worker, gateway, server, warm sandboxes."""
