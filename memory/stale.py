"""What may be archived (pure)."""

from dataclasses import dataclass
from datetime import datetime

from memory.types import Playbook


@dataclass(frozen=True, kw_only=True)
class Retention:
    """When a playbook has had its day. 0 means 0: no age is young enough, no confidence too low."""

    max_age_days: float = 90.0
    min_confidence: float = 0.3


def stale_reason(playbook: Playbook, retention: Retention, now: datetime) -> str | None:
    """The reason to archive a playbook, or None to keep it."""
    if playbook.status == "archived":
        return None
    weak = playbook.confidence < retention.min_confidence
    days = f"{retention.max_age_days:g} days"

    def old(moment: datetime) -> bool:
        return (now - moment).total_seconds() > retention.max_age_days * 86_400

    used = playbook.last_used_at
    if not old(playbook.updated_at) or (used is not None and not old(used)):
        return None
    if used is None:
        return f"never used in {days}" if weak else None
    return f"not used for {days}"
