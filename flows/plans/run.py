"""A plan from draft to report, without Prefect: draft, agree, open the run, execute, report."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from contracts.chat import Complete
from contracts.entity import EMPTY_LABEL, Label
from contracts.errors import HarnessError, OptionInvalid
from contracts.json import Json
from contracts.run import DecisionCounts
from contracts.sandbox import SnapshotId
from flows.config.policy import PolicySettings
from flows.plans.mail import send_mail
from flows.plans.record import record_plan, record_process, recorded_plan, saved_flow_run
from flows.plans.report import PlanReport, PlanStatus, step_report
from flows.plans.request import PlanRequest
from flows.plans.workspace import (
    OpenSandbox,
    PlanSnapshot,
    PlanWorkspace,
    check_workspace,
)
from policy.authority import RELEASE, Authority
from policy.errors import ResultNotSaved
from policy.log.event_log import EventLog
from policy.log.events import Append, Draft, Event
from policy.plan.approvals import Approvals
from policy.plan.executor import PlanRun
from policy.plan.models import PlannerInput, composer, make_plan, model_operations
from policy.plan.named import named_in
from policy.plan.operations import (
    WORKSPACE,
    OutsideActions,
    ask_person_through,
    outside_operations,
    workspace_operations,
)
from policy.plan.plan_log import FINAL_STATUSES, PlanLog, StepOutcome
from policy.plan.registry import Operation, Registry
from policy.types import Approver, Plan, UserPrompt


@dataclass(frozen=True, kw_only=True)
class PlanDependencies:
    """Everything that plans are made and run with; built by `plan_dependencies`."""

    policy: PolicySettings
    planner: str
    model: str
    repos: Path
    log: EventLog
    approvals: Approvals
    complete: Complete
    open_sandbox: Callable[[str], OpenSandbox]
    """Takes a run id."""
    delete_snapshots: Callable[[str, Collection[SnapshotId]], None]
    """Deletes the snapshots of a run, except the given ones."""
    run_blueprint: Callable[[PlanRequest, str, str], Json]
    """Takes the plan's request, the name of a blueprint and an intent; returns the run's report."""
    ask_person: Callable[[str], str] | None = None
    """Asks the user at this terminal. None: no terminal, so a question becomes an approval."""
    custom_operations: tuple[Operation, ...] = ()
    """The user's own operations."""


def draft_plan(deps: PlanDependencies, request: PlanRequest) -> Plan:
    """Return a checked plan for the prompt. Nothing is run, and no data is read.

    Raises:
        RepoInvalid: there is no such repository or folder.
        PlanInvalid: the planner wrote no valid plan.
        ModelUnavailable: the planner does not answer.
    """
    check_workspace(request.repo)
    check_grants(deps, request, request.grants)
    prompt = UserPrompt(text=request.prompt, at=datetime.now(UTC))
    return make_plan(
        prompt, planner_brief(deps, request), complete=deps.complete, model=deps.planner
    )


def planner_brief(deps: PlanDependencies, request: PlanRequest) -> PlannerInput:
    """Return what the planner may know about this request."""
    with _workspace(deps, request, "none", None) as unopened:
        return PlannerInput(
            registry=_registry(deps, request, unopened, "none", lambda: EMPTY_LABEL),
            authority=deps.policy.authority(request.grants),
            inputs=request.inputs,
            tagged=deps.policy.files,
        )


def check_grants(deps: PlanDependencies, request: PlanRequest, grants: frozenset[str]) -> None:
    """Refuse grants that no operation requires and that release no known tag.

    Raises:
        OptionInvalid: names the unknown grants and those that exist.
    """
    known = planner_brief(deps, request)
    capabilities = frozenset().union(*(one.requires for one in known.registry))
    unknown = sorted(
        grant
        for grant in grants - capabilities
        if not (grant.startswith(RELEASE) and known.authority.is_known(grant.removeprefix(RELEASE)))
    )
    if unknown:
        raise OptionInvalid(
            f"no operation requires {', '.join(unknown)}; grants are "
            f"{', '.join(sorted(capabilities))}, and release:TAG for a tag of the settings"
        )


def missing_grants(deps: PlanDependencies, request: PlanRequest, plan: Plan) -> frozenset[str]:
    """Return the capabilities that the plan needs and that are not granted yet."""
    needed: frozenset[str] = frozenset().union(*(step.tool_caps for step in plan.steps))
    return needed - deps.policy.authority(request.grants).grants


def record_agreed_plan(
    deps: PlanDependencies, run_id: str, request: PlanRequest, plan: Plan
) -> None:
    """Record that the user agreed to this plan with the grants of the request."""
    record_plan(deps.log, run_id, request, plan, agreed=True)


@contextmanager
def open_plan_run(
    deps: PlanDependencies, run_id: str, person: Approver | None = None
) -> Iterator[PlanRun]:
    """Open the run of an agreed plan where it stopped; its sandbox is removed with the block.

    The workspace is saved after each step that writes files and when a step waits for an approval,
    so that a later process, also after a crash, has the files of the finished steps.

    Raises:
        RunNotFound: there is no agreed plan of this id.
    """
    request, plan = recorded_plan(deps.log, run_id)
    events = deps.log.events(run_id, merged=False)
    entities = deps.log.entities(name for event in events for name in event.produces)
    with (
        record_process(deps.log, run_id),
        _workspace(deps, request, run_id, _last_snapshot(events)) as workspace,
    ):
        registry = _registry(
            deps, request, workspace, run_id, lambda: run.label(f"place.{WORKSPACE}")
        )
        run = PlanRun(
            plan,
            registry,
            _authority(deps, request),
            values=request.entities(trusted=deps.policy.trust_workspace),
            log=PlanLog(run_id, _append(deps), events, entities),
            known=entities.values(),
            approver=person or deps.approvals.approver,
            compose=composer(deps.complete, deps.model),
        )
        yield run
        statuses = [outcome.status for outcome in run.outcomes.values()]
        if "waiting" in statuses:
            _save_files(deps, run_id, workspace, renew=True)
    if len(statuses) == len(plan.steps) and set(statuses) <= set(FINAL_STATUSES):
        deps.delete_snapshots(run_id, ())


def _authority(deps: PlanDependencies, request: PlanRequest) -> Authority:
    authority = deps.policy.authority(request.grants)
    return replace(authority, named=named_in(request.prompt, authority.principals))


def plan_report(deps: PlanDependencies, run_id: str) -> PlanReport:
    """Return the report of the run, from the event log alone.

    Raises:
        RunNotFound: there is no agreed plan of this id.
    """
    request, plan = recorded_plan(deps.log, run_id)
    events = deps.log.events(run_id, merged=False)
    entities = deps.log.entities(name for event in events for name in event.produces)
    steps = PlanLog(run_id, _append(deps), events, entities).earlier_steps
    decisions = [event.body for event in events if event.kind == "decision"]
    allowed = sum(body.get("verdict") == "allowed" for body in decisions)
    flow_run_id, flow_run_url = saved_flow_run(deps.log, run_id)
    return PlanReport(
        run_id=run_id,
        flow_run_id=flow_run_id,
        flow_run_url=flow_run_url,
        status=_status(plan, steps),
        prompt=request.prompt,
        plan=plan,
        steps=tuple(step_report(plan, index, steps[index], decisions) for index in sorted(steps)),
        approvals=tuple(one.id for one in deps.approvals.list(run_id=run_id, pending=True)),
        decisions=DecisionCounts(allowed=allowed, denied=len(decisions) - allowed),
    )


def _status(plan: Plan, steps: Mapping[int, StepOutcome]) -> PlanStatus:
    statuses = [steps[index].status if index in steps else "" for index in range(len(plan.steps))]
    if "waiting" in statuses:
        return "waiting"
    if "" in statuses:
        return "planned"
    return "failure" if {"failed", "denied"} & set(statuses) else "success"


def _workspace(
    deps: PlanDependencies, request: PlanRequest, run_id: str, snapshot: PlanSnapshot | None
) -> "closing[PlanWorkspace]":
    """Return the workspace of the plan; its sandbox is removed with the block."""
    workspace = PlanWorkspace(
        request.repo,
        deps.open_sandbox(run_id),
        branch=f"harness/{run_id}/plan",
        store=deps.repos,
        snapshot=snapshot,
        ttl_s=deps.policy.approval_ttl_s,
    )
    return closing(workspace)


def _registry(
    deps: PlanDependencies,
    request: PlanRequest,
    workspace: PlanWorkspace,
    run_id: str,
    label: Callable[[], Label],
) -> Registry:
    """The operations of the plan's steps; `label` returns the current label of the workspace."""

    def push(remote: str, branch: str) -> str:
        bounds = deps.policy.plan_bounds(request.allow_change, label())
        return workspace.push(remote, branch, bounds)

    outside = OutsideActions(
        send=lambda mail: send_mail(mail, deps.policy.mail),
        push=push,
        run_blueprint=lambda name, intent: deps.run_blueprint(request, name, intent),
        ask_person=deps.ask_person or ask_person_through(deps.approvals, run_id),
    )
    known = (
        *workspace_operations(workspace.sandbox, deps.policy.file_labels, workspace.env),
        *outside_operations(outside, deps.policy.file_labels),
        *model_operations(deps.complete, deps.model),
        *deps.custom_operations,
    )
    return Registry(_saving(one, lambda: _save_files(deps, run_id, workspace)) for one in known)


def _saving(operation: Operation, save: Callable[[], None]) -> Operation:
    """Save the workspace after an operation that writes files, before its step is recorded as done.

    If the files cannot be saved, the step was still done, and is not repeated.
    """
    if operation.effect != "write" or operation.place != WORKSPACE:
        return operation

    def run(**arguments: Json) -> Json:
        result = operation.run(**arguments)
        try:
            save()
        except HarnessError as error:
            raise ResultNotSaved(
                f"the step was done, but its files could not be saved: {error}"
            ) from error
        return result

    return replace(operation, run=run)


def _append(deps: PlanDependencies) -> Append:
    return lambda draft: deps.log.append([draft])


def _last_snapshot(events: Sequence[Event]) -> PlanSnapshot | None:
    snapshots = [event for event in events if event.kind == "snapshot"]
    if not snapshots:
        return None
    last = snapshots[-1]
    base = last.body.get("base")
    files = SnapshotId(str(last.body["checkpoint"]))
    return PlanSnapshot(files, None if base is None else str(base), last.at)


def _save_files(
    deps: PlanDependencies, run_id: str, workspace: PlanWorkspace, *, renew: bool = False
) -> None:
    saved = workspace.renew() if renew else workspace.save()
    if saved is not None:
        body = {"checkpoint": saved.files, "base": saved.base}
        deps.log.append([Draft(kind="snapshot", run_id=run_id, body=body)])
        deps.delete_snapshots(run_id, (saved.files,))
