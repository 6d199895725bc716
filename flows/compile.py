"""A blueprint as a Prefect flow: each node, step and attempt is a task run."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from prefect import Flow, State, allow_failure, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import TerminationSignal
from prefect.runtime import deployment, flow_run
from prefect.states import Cancelled, Completed, Failed

from blueprints.engine import Perform, Watch
from blueprints.types import Blueprint
from contracts.errors import HarnessError, RunNotFound
from contracts.run import NodeResult, RunReport
from flows.artifacts import publish_report, publish_view
from flows.asked import check_own
from flows.form import (
    CONFIGURED,
    Agent,
    Budget,
    Company,
    Intent,
    IntentFrom,
    Model,
    Options,
    Push,
    Ref,
    Repo,
    Secrets,
    User,
    with_options_of,
)
from flows.heartbeat import beating
from flows.limits import turn
from flows.memory_tasks import memory_in_prefect, notes_in_prefect
from flows.names import NO_REPO, run_name, tag_flow_run
from flows.plain_flow import NOT_GIVEN, PlainFlow, check_given, must_be_given
from flows.plain_log import failures_told_once
from flows.plainly import plainly
from flows.queued import queue, queued
from flows.request import FlowRun, RunRequest
from flows.run import run_blueprint
from flows.runs import finished, is_known, read_diff, read_entry, read_report, reported_at, waits
from flows.secrets import secrets_set
from flows.settings import load_settings
from flows.settle import settle, settle_flow_run
from flows.signals import LOOK_S, LOOK_UNDER_WORKER_S, cancelled_from_prefect, undisturbed
from flows.telemetry import Trace, traced
from flows.workshop import Workshop
from nodes.types import Node

RunFlow = Flow[..., State[RunReport]]


def compile_blueprint(
    blueprint: Blueprint,
    workshop: Callable[[], Workshop],
    *,
    blueprint_ref: str = "",
    run_id: str | None = None,
    watch: Watch | None = None,
    whole: Callable[[str], str] = str,
) -> RunFlow:
    """The flow that runs this blueprint, under the blueprint's name.

    It ends Completed or Failed with the `RunReport` as data; what a node raises is raised.
    `run_id=None` takes the last eight hex digits of the flow run's id. `workshop` is called
    when a run begins, not before. A flow run that is retried goes on where it stopped, and
    one that was finished ends at once as it did. Where a deployment started it, it is suspended
    while it waits for a person. `whole` gives the address of the repository where its
    parameter hides a password.
    """

    def own_name() -> str:
        own_id = run_id or str(flow_run.id)[-8:]
        repo = str(flow_run.parameters.get("repo") or NO_REPO)
        return run_name(blueprint.name, repo, own_id)

    compiled = PlainFlow(
        flow_function(
            blueprint,
            workshop,
            blueprint_ref=blueprint_ref,
            run_id=run_id,
            watch=watch,
            whole=whole,
        ),
        name=blueprint.name,
        description=blueprint.description,
        flow_run_name=own_name,
        persist_result=False,
        on_cancellation=[settle_flow_run],
        on_crashed=[settle_flow_run],
    )
    return must_be_given("repo")(compiled)


def flow_function(
    blueprint: Blueprint,
    workshop: Callable[[], Workshop],
    *,
    blueprint_ref: str,
    run_id: str | None = None,
    watch: Watch | None = None,
    whole: Callable[[str], str] = str,
) -> Callable[..., State[RunReport]]:
    """What the flow of this blueprint does, for a flow of another name."""

    def own_id() -> str:
        return run_id or str(flow_run.id)[-8:]

    @plainly
    @with_options_of(blueprint)
    def blueprint_flow(  # noqa: PLR0913, PLR0917 - one parameter for each field of the form
        repo: Repo = NOT_GIVEN,
        intent: Intent = "",
        ref: Ref = "",
        agent: Agent = CONFIGURED,
        model: Model = "",
        push: Push = False,
        budget_usd: Budget = None,
        options: Options = {},  # noqa: B006 - the form shows it; nobody changes it
        user: User = "",
        company: Company = "",
        secrets: Secrets = {},  # noqa: B006 - the form shows it; nobody changes it
        intent_from: IntentFrom = "",
    ) -> State[RunReport]:
        """Run the blueprint; `flows/form.py` says what each parameter means."""
        check_given({"repo": repo})
        with secrets_set(secrets), beating():
            tools = workshop()
            if run_id is None:
                check_own(tools.runs / own_id(), str(flow_run.id))
            over = finished(tools.runs, own_id())
            if over is not None:
                return _end(over)
            tools = replace(
                tools,
                memory=memory_in_prefect(tools.memory),
                notes=partial(notes_in_prefect, tools.notes),
            )
            request = RunRequest(
                blueprint=blueprint,
                blueprint_ref=blueprint_ref,
                repo=whole(repo),
                intent=intent,
                intent_from=intent_from,
                ref=ref or None,
                agent=tools.default_agent if agent == CONFIGURED else agent,
                model=model or tools.default_model,
                push=push,
                budget_usd=budget_usd or tools.default_budget_usd,
                options=options,
                user=user or None,
                company=company or None,
            )
            tools.check(request)
            tag_flow_run(request)
            suspends = run_id is None and deployment.id is not None
            this = FlowRun(str(flow_run.id), str(flow_run.ui_url), suspends)
            while True:
                if suspends and waits(tools.runs, own_id()):
                    # With the database and Prefect's forms, which most runs never need.
                    from flows.suspend import suspend_until_decided

                    with tools.approvals() as approvals:
                        suspend_until_decided(approvals, own_id())
                report = _once(request, tools, own_id(), this, watch or Watch())
                if not suspends or report.status != "waiting":
                    return _end(report)

    return blueprint_flow


def _once(
    request: RunRequest, tools: Workshop, run_id: str, this: FlowRun, watch: Watch
) -> RunReport:
    """Go on with the run as far as it comes, and show how it stands."""
    settings = load_settings()
    before = reported_at(tools.runs, run_id)
    with traced(settings.telemetry, request, run_id) as trace:
        try:
            look_s = LOOK_UNDER_WORKER_S if this.suspends else LOOK_S
            look = cancelled_from_prefect(this.id, every_s=look_s)
            noted = partial(queued, tools.runs, run_id, request, this)
            with look, turn(request, settings.limits, queue=noted):
                report = run_blueprint(
                    request,
                    trace.workshop(tools),
                    run_id=run_id,
                    flow_run=this,
                    perform=trace.perform(task_runner()),
                    lanes=lambda: trace.perform(task_runner()),
                    watch=_logged(watch),
                )
        except (KeyboardInterrupt, TerminationSignal) as told:
            with undisturbed():
                report = _cut_short(told, request, tools, run_id, this)
        except HarnessError as error:
            with suppress(HarnessError):
                settle(tools, run_id, error, of="queued")
                if reported_at(tools.runs, run_id) != before:
                    _tell(read_report(tools.runs, run_id), tools, trace)
            raise
        _tell(report, tools, trace)
    return report


def _tell(report: RunReport, tools: Workshop, trace: Trace) -> None:
    """Tell telemetry and Prefect how the run stands."""
    trace.ended(report, tools.runs / report.run_id / "trajectory.jsonl")
    publish_report(report, read_diff(tools.runs, report.run_id))
    publish_view(tools.view(report.run_id), report.run_id)


def task_runner() -> Perform:
    """A `Perform` that makes each node a task run; a failed node's task run is Failed.

    Each task run waits for the one before it, so that the graph shows their order.
    """
    last: State[object] | None = None
    failures_told_once()

    def perform(node: Node, execute: Callable[[], NodeResult]) -> NodeResult:
        nonlocal last
        # No tags: each would cost a question to the server about its concurrency limits.
        # A function, for Prefect takes a string for a template.
        run = _node_task.with_options(name=node.name, task_run_name=lambda: node.name)
        before = None if last is None else [allow_failure(last)]
        last = run(execute, return_state=True, wait_for=before)
        match last.result(raise_on_failure=False):
            case NodeResult() as result:
                return result
            case BaseException() as error:
                raise error
            case other:
                raise TypeError(f"node {node.name!r} gave {other!r}, which is no NodeResult")

    return perform


@task(cache_policy=NO_CACHE, persist_result=False)
def _node_task(execute: Callable[[], NodeResult]) -> object:
    result = execute()
    match result.status:
        case "success":
            return Completed(data=result)
        case "skipped":
            return Completed(name="Skipped", data=result)
        case "failure":
            return Failed(message=result.error, data=result)


def _logged(watch: Watch) -> Watch:
    """The same watch, also told to the Prefect log of the run that is going on."""

    def on_complete(name: str, result: NodeResult) -> None:
        why = f": {result.error}" if result.error else ""
        seconds = result.duration_ms / 1000
        get_run_logger().info("node %r: %s in %.1f s%s", name, result.status, seconds, why)
        watch.on_node_complete(name, result)

    def on_line(name: str, line: str) -> None:
        get_run_logger().info("%s", line)
        watch.on_line(name, line)

    return Watch(on_node_start=watch.on_node_start, on_node_complete=on_complete, on_line=on_line)


def _cut_short(
    told: BaseException, request: RunRequest, tools: Workshop, run_id: str, this: FlowRun
) -> RunReport:
    """The report of a run that was told to end, by whomever, also before it began."""
    with suppress(RunNotFound):
        return read_report(tools.runs, run_id)
    if not is_known(tools.runs, run_id):
        queue(tools.runs, run_id, request, this)
    report = settle(tools, run_id, told, of=read_entry(tools.runs, run_id).state)
    if report is None:
        raise told
    return report


def _end(report: RunReport) -> State[RunReport]:
    if report.status == "cancelled":
        return Cancelled(message=report.error, data=report)
    if report.status == "waiting":
        return Completed(name="Waiting", message="waits for an approval", data=report)
    if report.status == "success":
        where = f"work on {report.branch}" if report.branch else "nothing changed"
        return Completed(message=where, data=report)
    return Failed(message=report.error, data=report)
