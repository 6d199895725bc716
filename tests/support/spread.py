"""Vectors of which none is near another."""

from collections.abc import Sequence
from random import Random


def spread(texts: Sequence[str]) -> list[list[float]]:
    """Vectors that no two texts share, each as far from the next as from any."""
    drawn = (Random(said) for said in texts)  # noqa: S311 - no secrets
    return [[one.gauss() for _ in range(16)] for one in drawn]
