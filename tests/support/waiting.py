"""Waiting for events: no test passes or fails by how fast this machine is.

A limit here only ends what hangs. How fast things are is measured by `make bench`.
"""

from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import TypeVar

LONG_S = 600.0
"""Seconds after which a test no longer waits for an event: far more than any machine needs."""

Seen = TypeVar("Seen")


def wait_until(seen: Callable[[], Seen], *, every_s: float = 0.1) -> Seen:
    """Call `seen` again and again until its result is true, and return that result.

    Raises:
        AssertionError: it was not true within `LONG_S`.
    """
    give_up = monotonic() + LONG_S
    while not (found := seen()):
        assert monotonic() < give_up, f"waited {LONG_S:g} s, and it is still {found!r}"
        sleep(every_s)
    return found


def growing_limits(first_s: float) -> Iterator[float]:
    """Time limits, each twice the one before, for a test of what a limit does.

    The test uses one after the other, and stops at the first that left enough time for what must
    have happened before the limit: a program that is killed must have begun.

    Raises:
        AssertionError: no limit up to `LONG_S` was long enough.
    """
    limit_s = first_s
    while limit_s < LONG_S:
        yield limit_s
        limit_s *= 2
    raise AssertionError(f"a limit of {limit_s / 2:g} s is too short")
