"""Blueprints are tested in the sandbox that nodes are."""

from tests.support.nodes import sandbox

__all__ = ("sandbox",)
