"""What all machines together say of an approval: whoever forbids wins, in whatever order. Pure."""

from collections.abc import Iterable
from typing import Literal

from policy.events import Event

Standing = Literal["unknown", "pending", "approved", "used", "expired", "denied", "revoked"]

_STRONGER: tuple[Standing, ...] = (
    "unknown", "pending", "approved", "used", "expired", "denied", "revoked"
)  # fmt: skip


def standing(events: Iterable[Event], approval: str) -> Standing:
    """The strongest word that was said of it, as far as these events know.

    Their order does not matter, so a revocation and an approval that know nothing of each other
    come out as a revocation, everywhere. Nothing said later makes it valid again: a new question
    is a new approval.
    """
    said = [_status(event) for event in events if _is_about(event, approval)]
    return max(said, key=_STRONGER.index, default="unknown")


def uses(events: Iterable[Event], approval: str) -> tuple[Event, ...]:
    """The events that used it: more than one where two machines did so without knowing."""
    about = (event for event in events if _is_about(event, approval))
    return tuple(event for event in about if _status(event) == "used")


def was_approved_before(events: Iterable[Event], approval: str, later: Event) -> bool:
    """True when `later` follows the approval and nobody, anywhere, ever forbade it."""
    about = [event for event in events if _is_about(event, approval)]
    forbidden = any(_status(event) in ("denied", "revoked", "expired") for event in about)
    followed = any(_status(event) == "approved" and follows(later, event) for event in about)
    return followed and not forbidden


def follows(later: Event, earlier: Event) -> bool:
    """True when the later event knew of the earlier one."""
    return later.clock.get(earlier.replica, 0) >= earlier.counter


def _is_about(event: Event, approval: str) -> bool:
    return event.kind == "approval" and event.body.get("approval") == approval


def _status(event: Event) -> Standing:
    """A word that nobody knows forbids."""
    said = event.body.get("status")
    return next((word for word in _STRONGER if word == said), "denied")
