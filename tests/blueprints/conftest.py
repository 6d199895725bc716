"""Blueprints are tested in the same sandbox as nodes."""

from tests.support.nodes import sandbox

__all__ = ("sandbox",)
