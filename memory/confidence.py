"""Statistics of few outcomes: Wilson intervals, and when a playbook counts as failing (pure)."""

from math import sqrt
from typing import NamedTuple

Z95 = 1.96

RECENT_EXECUTIONS = 10
"""Number of latest executions that decide whether a playbook is failing."""

MIN_FAILURES = 3
"""Failures among them that a failing playbook has at least."""


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def wilson(successes: int, failures: int, z: float = Z95) -> Interval:
    """Return Wilson's score interval of a success rate; (0, 1) without any outcome."""
    n = successes + failures
    if n == 0:
        return Interval(0.0, 1.0)
    share = successes / n
    centre = share + z * z / (2 * n)
    spread = z * sqrt((share * (1 - share) + z * z / (4 * n)) / n)
    scale = 1 + z * z / n
    return Interval(max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale))


def wilson_lower_bound(successes: int, failures: int) -> float:
    """Return the lower bound of Wilson's interval; 0 without any outcome."""
    return wilson(successes, failures).low


def is_failing(successes: int, failures: int) -> bool:
    """Return True if these outcomes of the `RECENT_EXECUTIONS` latest executions mean failing.

    That takes three failures, and more failures than successes. Fewer say little: a playbook that
    succeeds nine times in ten fails once within seven runs half of the time.
    """
    return failures >= MIN_FAILURES and failures > successes
