"""Which notes and examples come first: the specific before the general, then types (pure)."""

from collections.abc import Iterable
from typing import NamedTuple

MAX_DISTANCE = 0.85
"""Cosine distance past which a note has nothing to do with a task."""

EQUAL_DISTANCE = 0.05
"""Notes that are so little farther than the nearest are as near; the specific one comes first."""


class Candidate(NamedTuple):
    """One note or example that the viewer may see. `level` counts from 1, the most specific."""

    key: int
    level: int
    priority: int
    distance: float


def distance_limit(nearest: float, last: float) -> float:
    """The distance up to which something is meant by a task.

    `nearest` is the distance of the nearest, `last` that of the last that there is room for.
    """
    return min(MAX_DISTANCE, max(nearest + EQUAL_DISTANCE, last))


def choose_candidates(
    meant: Iterable[Candidate], standing: Iterable[Candidate], limit: int
) -> list[Candidate]:
    """The `limit` that come first, ranked; behind them, the others, for when those do not fit.

    What the task means goes before what holds whatever the task is, which takes the room that
    is left. Ranked is: the more specific, then the higher priority, then the nearer.
    """
    first = sorted(meant, key=_place)
    known = {one.key for one in first}
    rest = sorted((one for one in standing if one.key not in known), key=_place)
    chosen = [*first, *rest]
    return [*sorted(chosen[:limit], key=_place), *chosen[limit:]]


def _place(one: Candidate) -> tuple[int, int, float, int]:
    return (one.level, -one.priority, one.distance, one.key)
