"""A run of a plan, end to end, without Prefect: drafted, begun, opened, gone on with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from contracts.chat import Complete
from contracts.json import Json
from contracts.run import Decisions
from contracts.sandbox import SnapshotId
from flows.mail import send_mail
from flows.plan_process import note_process
from flows.plan_report import PlanReport, PlanStatus, step_report
from flows.plan_request import PlanRequest, note_plan, noted_plan
from flows.plan_workspace import OpenSandbox, PlanWorkspace, check_workspace, plan_workspace
from flows.policy_settings import PolicySettings
from policy.approvals import Approvals
from policy.ask import Person
from policy.asked_person import asking_in_approvals
from policy.compose import composer
from policy.events import Draft, Event
from policy.executor import PlanRun
from policy.log import EventLog
from policy.model_operations import model_operations
from policy.notes import Append, Ended, Notes
from policy.outside_operations import Outside, outside_operations
from policy.planner import Brief, make_plan
from policy.registry import Operation, Registry
from policy.types import Plan, Prompt
from policy.workspace_operations import workspace_operations


@dataclass(frozen=True, kw_only=True)
class PlanShop:
    """What plans are made and run with; built in `flows/plan_wiring.py`."""

    policy: PolicySettings
    planner: str
    model: str
    repos: Path
    log: EventLog
    approvals: Approvals
    complete: Complete
    open_sandbox: Callable[[str], OpenSandbox]
    """For the run of this id."""
    run_blueprint: Callable[[str, str, str], Json]
    """Takes a repository, a blueprint's name and an intent; gives the report."""
    ask_person: Callable[[str], str] | None = None
    """Asks whoever sits here. None: nobody does, so a question waits as an approval."""
    own: tuple[Operation, ...] = ()
    """The user's own operations."""


def draft_plan(shop: PlanShop, request: PlanRequest) -> Plan:
    """A plan for the prompt, checked; nothing is run and no data is looked at.

    Raises:
        RepoInvalid: there is nothing to work on.
        PlanInvalid: the planner wrote no plan that can be used.
        ModelUnavailable: it does not answer.
    """
    check_workspace(request.repo)
    prompt = Prompt(text=request.prompt, at=datetime.now(UTC))
    return make_plan(prompt, brief(shop, request), complete=shop.complete, model=shop.planner)


def brief(shop: PlanShop, request: PlanRequest) -> Brief:
    """What a planner may know of this request."""
    with _workspace(shop, request, "none", None) as unopened:
        return Brief(
            registry=_registry(shop, request, unopened, "none"),
            authority=shop.policy.authority(request.grants),
            inputs=request.inputs,
            tagged=shop.policy.files,
        )


def missing_grants(shop: PlanShop, request: PlanRequest, plan: Plan) -> frozenset[str]:
    """The capabilities that the plan asks for and nobody granted yet."""
    asked = frozenset().union(*(step.tool_caps for step in plan.steps))
    return asked - shop.policy.authority(request.grants).grants


def begin(shop: PlanShop, run_id: str, request: PlanRequest, plan: Plan) -> None:
    """Note that a person, or whoever started it, agreed on this plan with these grants."""
    note_plan(shop.log, run_id, request, plan, agreed=True)


@contextmanager
def open_run(shop: PlanShop, run_id: str, person: Person | None = None) -> Iterator[PlanRun]:
    """The run that was begun under this id, where it stands; its sandbox goes with the block.

    When steps wait for a person at the end, the files they will need are kept.

    Raises:
        RunNotFound: no plan was begun under this id.
    """
    request, plan = noted_plan(shop.log, run_id)
    note_process(shop.log, run_id)
    events = shop.log.events(run_id, merged=False)
    entities = shop.log.entities(name for event in events for name in event.produces)
    with _workspace(shop, request, run_id, _checkpoint(events)) as workspace:
        registry = _registry(shop, request, workspace, run_id)
        run = PlanRun(
            plan,
            registry,
            shop.policy.authority(request.grants),
            values=request.entities(trusted=shop.policy.trust_workspace),
            notes=Notes(run_id, _append(shop), events, entities),
            known=entities.values(),
            person=person or shop.approvals.person,
            propose=composer(shop.complete, shop.model),
        )
        yield run
        if any(outcome.status == "waiting" for outcome in run.outcomes.values()):
            _keep_files(shop, run_id, workspace)


def report_of(shop: PlanShop, run_id: str) -> PlanReport:
    """How the run stands, from the log alone.

    Raises:
        RunNotFound: no plan was begun under this id.
    """
    request, plan = noted_plan(shop.log, run_id)
    events = shop.log.events(run_id, merged=False)
    entities = shop.log.entities(name for event in events for name in event.produces)
    ended = Notes(run_id, _append(shop), events, entities).ended_before
    decisions = [event.body for event in events if event.kind == "decision"]
    allowed = sum(body.get("verdict") == "allowed" for body in decisions)
    return PlanReport(
        run_id=run_id,
        status=_status(plan, ended),
        prompt=request.prompt,
        plan=plan,
        steps=tuple(step_report(plan, index, ended[index], decisions) for index in sorted(ended)),
        approvals=tuple(one.id for one in shop.approvals.list(run_id=run_id, pending=True)),
        decisions=Decisions(allowed=allowed, denied=len(decisions) - allowed),
    )


def _status(plan: Plan, ended: Mapping[int, Ended]) -> PlanStatus:
    how = [ended[index].status if index in ended else "" for index in range(len(plan.steps))]
    if "waiting" in how:
        return "waiting"
    if "" in how:
        return "planned"
    return "failure" if {"failed", "denied"} & set(how) else "success"


@contextmanager
def _workspace(
    shop: PlanShop, request: PlanRequest, run_id: str, checkpoint: SnapshotId | None
) -> Iterator[PlanWorkspace]:
    with plan_workspace(
        request.repo,
        shop.open_sandbox(run_id),
        branch=f"harness/{run_id}/plan",
        store=shop.repos,
        bounds=shop.policy.bounds_of_plan(request.prompt, request.taint),
        checkpoint=checkpoint,
    ) as workspace:
        yield workspace


def _registry(
    shop: PlanShop, request: PlanRequest, workspace: PlanWorkspace, run_id: str
) -> Registry:
    outside = Outside(
        send=lambda mail: send_mail(mail, shop.policy.mail),
        push=workspace.push,
        run_blueprint=lambda name, intent: shop.run_blueprint(request.repo, name, intent),
        ask_person=shop.ask_person or asking_in_approvals(shop.approvals, run_id),
    )
    return Registry(
        [
            *workspace_operations(workspace.sandbox, shop.policy.file_labels, workspace.env),
            *outside_operations(outside),
            *model_operations(shop.complete, shop.model),
            *shop.own,
        ]
    )


def _append(shop: PlanShop) -> Append:
    return lambda draft: shop.log.append([draft])


def _checkpoint(events: Sequence[Event]) -> SnapshotId | None:
    kept = [event.body["checkpoint"] for event in events if event.kind == "snapshot"]
    return SnapshotId(str(kept[-1])) if kept else None


def _keep_files(shop: PlanShop, run_id: str, workspace: PlanWorkspace) -> None:
    kept = workspace.keep(shop.policy.approval_ttl_s)
    if kept is not None:
        shop.log.append([Draft(kind="snapshot", run_id=run_id, body={"checkpoint": kept})])
