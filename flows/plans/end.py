"""The last word of a process that did a plan, in the event log."""

from contracts.json import Json
from flows.plans.report import PlanStatus
from policy.log.event_log import EventLog
from policy.log.events import Draft
from policy.types import Plan


def record_plan_end(
    log: EventLog, run_id: str, plan: Plan, *, status: PlanStatus, error: str | None
) -> None:
    """Say how the plan stands now that its process ends, or somebody ends it in its place."""
    body: dict[str, Json] = {"plan": plan.id, "status": status, "error": error}
    log.append([Draft(kind="report", run_id=run_id, body=body)])


def is_plan_cancelled(log: EventLog, run_id: str) -> bool:
    """Whether the last word on this plan was that it is cancelled."""
    told = log.events(run_id, kind="report", merged=False)
    return bool(told) and told[-1].body.get("status") == "cancelled"
