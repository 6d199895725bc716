"""Whether an approval stood before an event, whatever order the events came in. Pure."""

from collections.abc import Iterable

from policy.log.events import Event

_HARMLESS = ("unknown", "pending", "approved", "used")
"""Words that forbid nothing. One that nobody knows forbids."""


def was_approved_before(events: Iterable[Event], approval: str, later: Event) -> bool:
    """True when `later` follows the approval and nobody, anywhere, ever forbade it."""
    about = [event for event in events if _is_about(event, approval)]
    forbidden = any(event.body.get("status") not in _HARMLESS for event in about)
    followed = any(
        event.body.get("status") == "approved" and follows(later, event) for event in about
    )
    return followed and not forbidden


def follows(later: Event, earlier: Event) -> bool:
    """True when the later event knew of the earlier one."""
    return later.clock.get(earlier.replica, 0) >= earlier.counter


def _is_about(event: Event, approval: str) -> bool:
    return event.kind == "approval" and event.body.get("approval") == approval
