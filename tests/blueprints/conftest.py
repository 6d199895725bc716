"""Blueprints are tested in the sandbox that nodes are."""

from tests.nodes.conftest import sandbox

__all__ = ("sandbox",)
