"""All plans of this home: list, find, cancel and compare them."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from difflib import unified_diff

from contracts.errors import HarnessError, OptionInvalid, RunNotFound, RunNotRunning
from flows.config.settings import Settings
from flows.plans.record import plan_process
from flows.plans.report import PlanStatus, plan_lines
from flows.plans.run import PlanDependencies
from flows.plans.state import PlanState, plan_state
from sandbox.process_label import is_local
from sandbox.redaction import redact_url

OPEN = ("planned", "running", "waiting", "lost")
"""Statuses of a plan that is not over."""


@dataclass(frozen=True, kw_only=True)
class PlanEntry:
    """One line of `harness plan list`."""

    run_id: str
    started_at: str
    status: PlanStatus
    agreed: bool
    steps: int
    prompt: str
    repo: str
    flow_run_url: str | None


def list_plans(deps: PlanDependencies, *, limit: int) -> list[PlanEntry]:
    """Return the newest plans, newest first; a plan that cannot be read is omitted."""
    first: dict[str, datetime] = {}
    for event in deps.log.events(kind="plan", merged=False):
        first.setdefault(event.run_id, event.at)
    newest = sorted(first.items(), key=lambda pair: pair[1], reverse=True)
    found: list[PlanEntry] = []
    for run_id, at in newest:
        if len(found) == limit:
            break
        with suppress(HarnessError):  # it was recorded by another version
            found.append(_entry(plan_state(deps, run_id), at))
    return found


def find_plan(deps: PlanDependencies, prefix: str) -> str:
    """Return the id of the only plan whose id begins with this.

    Raises:
        RunNotFound: there is none, or more than one.
    """
    known = {event.run_id for event in deps.log.events(kind="plan", merged=False)}
    found = [run_id for run_id in known if run_id.startswith(prefix) and prefix]
    if prefix in known:
        return prefix
    if len(found) != 1:
        count = f"{len(found)} plans have" if found else "no plan has"
        raise RunNotFound(
            f"{count} an id that begins with {prefix!r}; `harness plan list` shows ids"
        )
    return found[0]


def check_resumable(state: PlanState) -> None:
    """Refuse to resume a plan that is over, drafted only, or run by another process.

    Raises:
        OptionInvalid: the reason, and what to do.
    """
    run_id, status = state.report.run_id, state.report.status
    if state.request.flow_run:
        raise OptionInvalid(f"plan {run_id} is run by a flow run: use *Resume* in the Prefect UI")
    if not state.agreed:
        raise OptionInvalid(
            f"nobody agreed to plan {run_id}: `harness repl` (:plan {run_id}, then :run) or "
            f"POST /plans/{run_id}/run agrees to it"
        )
    if status not in OPEN or status == "running":
        raise OptionInvalid(f"plan {run_id} is {status}: only a waiting or lost plan is resumed")


def cancel_plan(deps: PlanDependencies, settings: Settings, run_id: str) -> PlanState:
    """End the plan's process or flow run, deny its approvals, and return its state.

    Raises:
        RunNotRunning: it is over, or a process of another machine runs it.
        PrefectUnavailable: its flow run is suspended, and the server does not answer.
    """
    state = plan_state(deps, run_id)
    status = state.report.status
    if status not in OPEN:
        raise RunNotRunning(f"plan {run_id} is not running: it is {status}")
    process = plan_process(deps.log, run_id)
    if status == "running" and (process is None or not is_local(process)):
        raise RunNotRunning(
            f"plan {run_id} is run by a process of another machine: cancel it there"
        )
    # With Prefect, which takes two seconds to import.
    from flows.orchestration.cancel import cancel_flow_run, end_process
    from flows.orchestration.start import connected_to
    from flows.plans.reconcile import cancel_waiting_plan
    from flows.services.prefect_server import api_url

    if status == "running" and process is not None:
        end_process(process)
    if state.request.flow_run:
        with connected_to(api_url(settings)):
            cancel_flow_run(state.request.flow_run)
    cancel_waiting_plan(deps, run_id)
    return plan_state(deps, run_id)


def plan_diff(old: PlanState, new: PlanState) -> str:
    """Return the difference between the prompts and the steps of two plans, as a unified diff."""
    one, other = (_text(state) for state in (old, new))
    names = (f"plan {old.report.run_id}", f"plan {new.report.run_id}")
    return "\n".join(unified_diff(one, other, *names, lineterm=""))


def _text(state: PlanState) -> list[str]:
    return [*state.report.prompt.splitlines(), "", *plan_lines(state.report.plan)]


def _entry(state: PlanState, at: datetime) -> PlanEntry:
    return PlanEntry(
        run_id=state.report.run_id,
        started_at=at.isoformat(timespec="seconds"),
        status=state.report.status,
        agreed=state.agreed,
        steps=len(state.report.plan.steps),
        prompt=state.report.prompt,
        repo=redact_url(state.request.repo),
        flow_run_url=state.report.flow_run_url,
    )
