"""The record of a plan: its events in the log, and which process of this machine runs it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from contracts.entity import EMPTY_LABEL, Entity
from contracts.errors import RunNotFound
from contracts.json import Json, canonical_json
from flows.plans.report import PlanStatus
from flows.plans.request import PlanRequest
from flows.runs.home import save_address, saved_address, write_in_home
from flows.runs.run_record import file_lock, is_locked
from policy.log.event_log import EventLog
from policy.log.events import Draft, Event
from policy.plan.plan_json import parse_plan
from policy.plan.registry import plain_json
from policy.types import Plan, UserPrompt
from sandbox.process_label import has_exited, is_local, process_label

PlanDelta = dict[str, Json]
"""One change of a plan, for the command line and the HTTP API."""


def record_plan(
    log: EventLog, run_id: str, request: PlanRequest, plan: Plan, *, agreed: bool
) -> None:
    """Append the request and its plan to the log. Only an agreed plan is ever run."""
    prompt = UserPrompt(text=request.prompt, at=datetime.now(UTC))
    text = Entity(content=prompt.text, label=EMPTY_LABEL, origin="prompt")
    body: dict[str, Json] = {
        **request.model_dump(mode="json"),
        "grants": sorted(request.grants),
        "repo": save_address(plan_folder(log), run_id, request.repo),
        "plan": plan.id,
        "steps": plan.as_json(),
        "agreed": agreed,
    }
    log.append(
        [
            Draft(kind="prompt", run_id=run_id, body={"prompt": prompt.id}, produces=(text,)),
            Draft(kind="plan", run_id=run_id, body=body, consumes=(text.id,)),
        ]
    )


def recorded_plan(log: EventLog, run_id: str, *, agreed: bool = True) -> tuple[PlanRequest, Plan]:
    """Return the request and the plan of a run; with `agreed=False` also if it is only a draft.

    Raises:
        RunNotFound: the log has no such plan, or it was merged from another log.
    """
    own = log.events(run_id, kind="plan", merged=False)
    found = [event for event in own if not agreed or event.body.get("agreed")]
    if not found and len(log.events(run_id, kind="plan")) > len(own):
        raise RunNotFound(
            f"the plan of run {run_id!r} was merged from another log: it can be read with "
            "`harness events`, but not run"
        )
    if not found:
        raise RunNotFound(f"no plan runs or ran as {run_id!r}")
    body = found[0].body
    fields = {name: plain_json(body[name]) for name in PlanRequest.model_fields if name in body}
    repo = saved_address(plan_folder(log), run_id, str(body["repo"]))
    request = PlanRequest.model_validate({**fields, "repo": repo})
    prompt = UserPrompt(text=request.prompt, at=found[0].at)
    return request, parse_plan(canonical_json(body["steps"]), prompt=prompt.id)


def record_plan_end(
    log: EventLog, run_id: str, plan: Plan, *, status: PlanStatus, error: str | None
) -> None:
    """Append the status of a plan whose process ends, or was ended by another process."""
    body: dict[str, Json] = {"plan": plan.id, "status": status, "error": error}
    log.append([Draft(kind="report", run_id=run_id, body=body)])


def is_plan_cancelled(log: EventLog, run_id: str) -> bool:
    """Return True if the last recorded status of the plan is "cancelled"."""
    reports = log.events(run_id, kind="report", merged=False)
    return bool(reports) and reports[-1].body.get("status") == "cancelled"


@contextmanager
def record_process(log: EventLog, run_id: str) -> Iterator[None]:
    """Record that this process runs the plan until the block ends."""
    file = _process_file(log, run_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_in_home(file, process_label(os.getpid()), run_id=run_id)
    with file_lock(file):
        yield


def is_process_alive(log: EventLog, run_id: str) -> bool | None:
    """Return whether the last process of the plan is alive; None if none ran it on this machine."""
    file = _process_file(log, run_id)
    label = plan_process(log, run_id)
    if label is None:
        return None
    # The label of a process of another container or boot says nothing, but its lock does.
    return not has_exited(label) if is_local(label) else is_locked(file)


def plan_process(log: EventLog, run_id: str) -> str | None:
    """Return the label of the last process that ran the plan on this machine, if there is one."""
    try:
        return _process_file(log, run_id).read_text()
    except FileNotFoundError:
        return None


def save_flow_run(log: EventLog, run_id: str, flow_run_id: str, url: str) -> None:
    """Remember the flow run that runs the plan, for links to it."""
    file = plan_folder(log) / f"{run_id}.flow"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_in_home(file, f"{flow_run_id}\n{url}", run_id=run_id)


def saved_flow_run(log: EventLog, run_id: str) -> tuple[str | None, str | None]:
    """Return the id and the address of the plan's last flow run on this machine, or None."""
    try:
        lines = (plan_folder(log) / f"{run_id}.flow").read_text().split("\n")
    except FileNotFoundError:
        return None, None
    return lines[0] or None, lines[-1] or None


def plan_delta(event: Event) -> PlanDelta | None:
    """Return what one event changed about a plan or its steps; None if it is about no plan."""
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


def plan_folder(log: EventLog) -> Path:
    """The folder of this machine's files about plans, such as the process that runs each."""
    return log.head_file.path.parent / "plans"


def _process_file(log: EventLog, run_id: str) -> Path:
    return plan_folder(log) / f"{run_id}.process"
