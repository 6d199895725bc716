"""Servers and clients of this machine: Prefect, gateway, Chroma, pages."""
