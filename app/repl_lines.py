"""How `harness repl` tells an event, and an action that waits, in lines. Pure."""

from collections.abc import Mapping
from json import dumps

from contracts.json import Json
from flows.audit.approval_text import full_text
from flows.plans.record import plan_delta
from policy.log.events import Event
from policy.plan.registry import plain_json
from policy.types import Approval

_TOLD = 120


def event_line(event: Event) -> str:
    """One event in one line: when, about which run, of what kind, and what it says."""
    delta = plan_delta(event)
    said = _of_plan(delta) if delta else _short(event.body)
    return f"{event.at.astimezone():%H:%M:%S} {event.run_id} {event.kind:<10} {said}".rstrip()


def approval_lines(approval: Approval) -> list[str]:
    """What waits, why, and what led there."""
    return [f"waits: {approval.id}", *(f"  {line}" for line in full_text(approval))]


def _of_plan(delta: Mapping[str, Json]) -> str:
    step = f"step {delta['step']}: " if "step" in delta else ""
    parts = (delta[name] for name in ("status", "rule", "reason", "error") if name in delta)
    return step + " · ".join(" ".join(str(part).split()) for part in parts if part)


def _short(body: Mapping[str, Json]) -> str:
    text = dumps(plain_json(body), ensure_ascii=False)
    return text if len(text) <= _TOLD else f"{text[:_TOLD]}…"
