"""What one event changes about a plan, for those who follow it. Pure."""

from contracts.json import Json
from policy.log.events import Event

PlanDelta = dict[str, Json]


def plan_delta(event: Event) -> PlanDelta | None:
    """What became of a plan, or of one of its steps; None when the event is about no plan."""
    match event.kind, event.body:
        case "plan", {"agreed": agreed, "steps": steps}:
            change: PlanDelta = {"status": "agreed" if agreed else "planned", "steps": steps}
        case "step", {"step": int(step), "status": status, "reason": reason}:
            change = {"step": step, "status": status, "reason": reason}
        case "decision", {"step": int(step), "verdict": "allowed"}:
            change = {"step": step, "status": "allowed"}
        case "decision", {"step": int(step), "rule": rule, "reason": reason}:
            change = {"step": step, "status": "stopped", "rule": rule, "reason": reason}
        case "approval", {"step": int(step), "status": status, "approval": approval}:
            change = {"step": step, "status": status, "approval": approval}
        case "report", {"plan": _, "status": status, "error": error}:
            change = {"status": status, "error": error}
        case _:
            return None
    return {"plan": event.run_id, **change}
