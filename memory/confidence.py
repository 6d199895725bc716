"""How far a few outcomes can be trusted (pure)."""

from math import sqrt
from typing import NamedTuple

Z95 = 1.96


class Interval(NamedTuple):
    """A share and how sure we are of it, at 95 %."""

    low: float
    high: float


def wilson(successes: int, failures: int, z: float = Z95) -> Interval:
    """Wilson's score interval of a share; (0, 1) when nothing is known."""
    n = successes + failures
    if n == 0:
        return Interval(0.0, 1.0)
    share = successes / n
    centre = share + z * z / (2 * n)
    spread = z * sqrt((share * (1 - share) + z * z / (4 * n)) / n)
    scale = 1 + z * z / n
    return Interval(max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale))


RECENT_EXECUTIONS = 10
"""How many of a playbook's latest executions decide whether it fails."""

MIN_FAILURES = 3
"""Failures among them that it takes."""


def is_failing(successes: int, failures: int) -> bool:
    """Whether a playbook fails, by the outcomes of its `RECENT` latest executions.

    It takes three failures, and more failures than successes. A single failure says little: a
    playbook that succeeds nine times in ten has one within seven runs half of the time. Older
    outcomes do not count: the playbook or what it is used on has changed since.
    """
    return failures >= MIN_FAILURES and failures > successes


def wilson_lower_bound(successes: int, failures: int) -> float:
    """The share of successes that is safe to claim; 0 when nothing is known."""
    return wilson(successes, failures).low
