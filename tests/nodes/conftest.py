"""The sandbox that these tests run in: real commands, no isolation, this Python first."""

from tests.support.nodes import sandbox

__all__ = ("sandbox",)
