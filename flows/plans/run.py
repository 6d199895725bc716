"""A run of a plan, end to end, without Prefect: drafted, begun, opened, gone on with."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from contracts.chat import Complete
from contracts.entity import EMPTY_LABEL, Label
from contracts.errors import HarnessError
from contracts.json import Json
from contracts.run import DecisionCounts
from contracts.sandbox import SnapshotId
from flows.config.policy import PolicySettings
from flows.plans.mail import send_mail
from flows.plans.process import record_process
from flows.plans.report import PlanReport, PlanStatus, step_report
from flows.plans.request import PlanRequest, record_plan, recorded_plan
from flows.plans.workspace import (
    OpenSandbox,
    PlanSnapshot,
    PlanWorkspace,
    check_workspace,
    plan_workspace,
)
from policy.errors import ResultNotSaved
from policy.log.event_log import EventLog
from policy.log.events import Append, Draft, Event
from policy.plan.approvals import Approvals
from policy.plan.executor import FINAL_STATUSES, PlanRun
from policy.plan.model_operations import composer, model_operations
from policy.plan.outside_operations import OutsideActions, ask_person_through, outside_operations
from policy.plan.plan_log import EndedStep, PlanLog
from policy.plan.planner import PlannerInput, make_plan
from policy.plan.registry import Operation, Registry
from policy.plan.workspace_operations import WORKSPACE, workspace_operations
from policy.types import Approver, Plan, UserPrompt


@dataclass(frozen=True, kw_only=True)
class PlanDependencies:
    """What plans are made and run with; built in `flows/plans/dependencies.py`."""

    policy: PolicySettings
    planner: str
    model: str
    repos: Path
    log: EventLog
    approvals: Approvals
    complete: Complete
    open_sandbox: Callable[[str], OpenSandbox]
    """For the run of this id."""
    delete_snapshots: Callable[[str, Collection[SnapshotId]], None]
    """Removes what is kept of a run's files, by its id, except what it is given."""
    run_blueprint: Callable[[PlanRequest, str, str], Json]
    """Takes what the plan is for, a blueprint's name and an intent; gives the report."""
    ask_person: Callable[[str], str] | None = None
    """Asks whoever sits here. None: nobody does, so a question waits as an approval."""
    custom_operations: tuple[Operation, ...] = ()
    """The user's own operations."""


def draft_plan(shop: PlanDependencies, request: PlanRequest) -> Plan:
    """A plan for the prompt, checked; nothing is run and no data is looked at.

    Raises:
        RepoInvalid: there is nothing to work on.
        PlanInvalid: the planner wrote no plan that can be used.
        ModelUnavailable: it does not answer.
    """
    check_workspace(request.repo)
    prompt = UserPrompt(text=request.prompt, at=datetime.now(UTC))
    return make_plan(
        prompt, planner_brief(shop, request), complete=shop.complete, model=shop.planner
    )


def planner_brief(shop: PlanDependencies, request: PlanRequest) -> PlannerInput:
    """What a planner may know of this request."""
    with _workspace(shop, request, "none", None) as unopened:
        return PlannerInput(
            registry=_registry(shop, request, unopened, "none", lambda: EMPTY_LABEL),
            authority=shop.policy.authority(request.grants),
            inputs=request.inputs,
            tagged=shop.policy.files,
        )


def missing_grants(shop: PlanDependencies, request: PlanRequest, plan: Plan) -> frozenset[str]:
    """The capabilities that the plan asks for and nobody granted yet."""
    asked = frozenset().union(*(step.tool_caps for step in plan.steps))
    return asked - shop.policy.authority(request.grants).grants


def record_agreed_plan(
    shop: PlanDependencies, run_id: str, request: PlanRequest, plan: Plan
) -> None:
    """Note that a person, or whoever started it, agreed on this plan with these grants."""
    record_plan(shop.log, run_id, request, plan, agreed=True)


@contextmanager
def open_plan_run(
    shop: PlanDependencies, run_id: str, person: Approver | None = None
) -> Iterator[PlanRun]:
    """The run that was begun under this id, where it stands; its sandbox goes with the block.

    The files are kept after each step that writes some and when a step waits for a person, so
    that whoever goes on, also after a crash, has those that the finished steps left.

    Raises:
        RunNotFound: no plan was begun under this id.
    """
    request, plan = recorded_plan(shop.log, run_id)
    events = shop.log.events(run_id, merged=False)
    entities = shop.log.entities(name for event in events for name in event.produces)
    with (
        record_process(shop.log, run_id),
        _workspace(shop, request, run_id, _kept(events)) as workspace,
    ):
        registry = _registry(
            shop, request, workspace, run_id, lambda: run.label(f"place.{WORKSPACE}")
        )
        run = PlanRun(
            plan,
            registry,
            shop.policy.authority(request.grants),
            values=request.entities(trusted=shop.policy.trust_workspace),
            log=PlanLog(run_id, _append(shop), events, entities),
            known=entities.values(),
            approver=person or shop.approvals.approver,
            compose=composer(shop.complete, shop.model),
        )
        yield run
        ended = [outcome.status for outcome in run.outcomes.values()]
        if "waiting" in ended:
            _keep_files(shop, run_id, workspace, longer=True)
    if len(ended) == len(plan.steps) and set(ended) <= set(FINAL_STATUSES):
        shop.delete_snapshots(run_id, ())


def plan_report(shop: PlanDependencies, run_id: str) -> PlanReport:
    """How the run stands, from the log alone.

    Raises:
        RunNotFound: no plan was begun under this id.
    """
    request, plan = recorded_plan(shop.log, run_id)
    events = shop.log.events(run_id, merged=False)
    entities = shop.log.entities(name for event in events for name in event.produces)
    ended = PlanLog(run_id, _append(shop), events, entities).earlier_steps
    decisions = [event.body for event in events if event.kind == "decision"]
    allowed = sum(body.get("verdict") == "allowed" for body in decisions)
    return PlanReport(
        run_id=run_id,
        status=_status(plan, ended),
        prompt=request.prompt,
        plan=plan,
        steps=tuple(step_report(plan, index, ended[index], decisions) for index in sorted(ended)),
        approvals=tuple(one.id for one in shop.approvals.list(run_id=run_id, pending=True)),
        decisions=DecisionCounts(allowed=allowed, denied=len(decisions) - allowed),
    )


def _status(plan: Plan, ended: Mapping[int, EndedStep]) -> PlanStatus:
    how = [ended[index].status if index in ended else "" for index in range(len(plan.steps))]
    if "waiting" in how:
        return "waiting"
    if "" in how:
        return "planned"
    return "failure" if {"failed", "denied"} & set(how) else "success"


@contextmanager
def _workspace(
    shop: PlanDependencies, request: PlanRequest, run_id: str, kept: PlanSnapshot | None
) -> Iterator[PlanWorkspace]:
    with plan_workspace(
        request.repo,
        shop.open_sandbox(run_id),
        branch=f"harness/{run_id}/plan",
        store=shop.repos,
        snapshot=kept,
        ttl_s=shop.policy.approval_ttl_s,
    ) as workspace:
        yield workspace


def _registry(
    shop: PlanDependencies,
    request: PlanRequest,
    workspace: PlanWorkspace,
    run_id: str,
    label: Callable[[], Label],
) -> Registry:
    """What steps may do; `label` is what the files carry at the moment."""

    def push(remote: str, branch: str) -> str:
        bounds = shop.policy.plan_bounds(request.allow_change, label())
        return workspace.push(remote, branch, bounds)

    outside = OutsideActions(
        send=lambda mail: send_mail(mail, shop.policy.mail),
        push=push,
        run_blueprint=lambda name, intent: shop.run_blueprint(request, name, intent),
        ask_person=shop.ask_person or ask_person_through(shop.approvals, run_id),
    )
    known = (
        *workspace_operations(workspace.sandbox, shop.policy.file_labels, workspace.env),
        *outside_operations(outside, shop.policy.file_labels),
        *model_operations(shop.complete, shop.model),
        *shop.custom_operations,
    )
    return Registry(_keeping(one, lambda: _keep_files(shop, run_id, workspace)) for one in known)


def _keeping(operation: Operation, keep: Callable[[], None]) -> Operation:
    """The same operation; the files that it wrote are kept before it is noted as done.

    Where they cannot be kept it was done all the same, and is not tried again.
    """
    if operation.effect != "write" or operation.place != WORKSPACE:
        return operation

    def run(**given: Json) -> Json:
        made = operation.run(**given)
        try:
            keep()
        except HarnessError as error:
            raise ResultNotSaved(
                f"it was done, but its files could not be kept: {error}"
            ) from error
        return made

    return replace(operation, run=run)


def _append(shop: PlanDependencies) -> Append:
    return lambda draft: shop.log.append([draft])


def _kept(events: Sequence[Event]) -> PlanSnapshot | None:
    told = [event for event in events if event.kind == "snapshot"]
    if not told:
        return None
    base = told[-1].body.get("base")
    files = SnapshotId(str(told[-1].body["checkpoint"]))
    return PlanSnapshot(files, None if base is None else str(base), told[-1].at)


def _keep_files(
    shop: PlanDependencies, run_id: str, workspace: PlanWorkspace, *, longer: bool = False
) -> None:
    kept = workspace.renew() if longer else workspace.save()
    if kept is not None:
        body = {"checkpoint": kept.files, "base": kept.base}
        shop.log.append([Draft(kind="snapshot", run_id=run_id, body=body)])
        shop.delete_snapshots(run_id, (kept.files,))
