"""Compiles a blueprint into a Prefect flow, and executes a run inside its flow run.

Each node, step and attempt is a task run.
"""

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from threading import Event, Thread
from typing import Any
from uuid import UUID

from httpx import HTTPError
from prefect import Flow, State, get_client, get_run_logger
from prefect.exceptions import ObjectNotFound, TerminationSignal
from prefect.runtime import deployment, flow_run

from blueprints.engine import RunListener
from blueprints.types import Blueprint
from contracts.chat import model_names
from contracts.errors import HarnessError, RunNotFound
from contracts.run import RunReport
from flows.config.settings import load_settings
from flows.execution.dependencies import RunDependencies
from flows.execution.end_state import end_state
from flows.execution.engine import ignore_sigterm, run_blueprint
from flows.execution.kept_runs import reopen
from flows.execution.reconcile import reconcile_flow_run, reconcile_run
from flows.execution.telemetry import RunTrace, trace_run
from flows.orchestration.flow import (
    check_required,
    expected_errors,
    request_form,
    required_parameters,
    secret_variables,
    unless_typed,
)
from flows.orchestration.limits import wait_for_turn
from flows.orchestration.suspend import suspend_until_decided
from flows.orchestration.tasks import (
    memory_tasks,
    node_task_runner,
    note_tasks,
    publish_report,
    publish_view,
    watch_in_log,
)
from flows.orchestration.wait_checks import wait_for_checks
from flows.runs.home import TRAJECTORY
from flows.runs.request import FlowRun, ResolvedRequest, RunRequest, repo_name
from flows.runs.run_record import check_run_id, record_queued, waiting_in_queue
from flows.runs.runs import (
    finished_report,
    is_known,
    read_diff,
    read_entry,
    read_report,
    reported_at,
    waits_for_approval,
)
from flows.services.machines import taken_over
from flows.services.server_outage import ignore_outage

RunFlow = Flow[..., State[RunReport]]

_log = logging.getLogger(__name__)

NO_REPO = "no repository"
"""Stands for the repository in the name of a flow run that was started without one."""

LOOK_S = 2.0
"""Seconds between two requests that ask the Prefect server whether the flow run was cancelled."""


def compile_blueprint(
    blueprint: Blueprint,
    dependencies: Callable[[], RunDependencies],
    *,
    blueprint_ref: str = "",
    run_id: str | None = None,
    watch: RunListener | None = None,
    whole: Callable[[str], str] = str,
) -> RunFlow:
    """Return the flow that runs this blueprint, under the blueprint's name.

    The flow ends Completed or Failed with the `RunReport` as data; an exception of a node is
    raised. `run_id=None` uses the last eight hex digits of the flow run's id. `dependencies` is
    called when a run starts. A retried flow run resumes its run; if the run had finished, the flow
    run ends at once with the same state. A flow run of a deployment suspends while it waits for a
    person. `whole` maps a repository address to the one with its password.
    """

    def own_name() -> str:
        own_id = run_id or str(flow_run.id)[-8:]
        repo = str(flow_run.parameters.get("repo") or NO_REPO)
        return unless_typed(run_name(blueprint.name, repo, own_id))

    compiled = Flow(
        blueprint_flow(
            blueprint,
            dependencies,
            blueprint_ref=blueprint_ref,
            run_id=run_id,
            watch=watch,
            whole=whole,
        ),
        name=blueprint.name,
        description=blueprint.description,
        flow_run_name=own_name,
        persist_result=False,
        on_cancellation=[reconcile_flow_run],
        on_crashed=[reconcile_flow_run],
    )
    return required_parameters("repo")(compiled)


def blueprint_flow(
    blueprint: Blueprint,
    dependencies: Callable[[], RunDependencies],
    *,
    blueprint_ref: str,
    run_id: str | None = None,
    watch: RunListener | None = None,
    whole: Callable[[str], str] = str,
) -> Callable[..., State[RunReport]]:
    """Return the function of this blueprint's flow; the caller names and decorates the flow."""

    def own_id() -> str:
        return run_id or str(flow_run.id)[-8:]

    @expected_errors
    @request_form(blueprint, without=("blueprint",))
    def blueprint_flow(**fields: Any) -> State[RunReport]:
        """Run the blueprint. The parameters are made by `request_form`."""
        check_required({"repo": fields["repo"]})
        with secret_variables(fields["secrets"]):
            opened = dependencies()
            if run_id is None:
                check_run_id(opened.runs / own_id(), str(flow_run.id))
            over = finished_report(opened.runs, own_id())
            if over is not None and not _reopened(opened, own_id()):
                return end_state(over)
            opened = replace(
                opened,
                memory=memory_tasks(opened.memory),
                open_notes=partial(note_tasks, opened.open_notes),
            )
            fields["repo"] = whole(fields["repo"])
            given = RunRequest.of(blueprint=blueprint_ref or blueprint.name, **fields)
            request = opened.resolve_request(given, blueprint)
            opened.check_request(request)
            tag_flow_run(request)
            suspends = run_id is None and deployment.id is not None
            this = FlowRun(str(flow_run.id), str(flow_run.ui_url), suspends)
            return end_state(_until_over(request, opened, own_id(), this, watch or RunListener()))

    return blueprint_flow


def _reopened(dependencies: RunDependencies, run_id: str) -> bool:
    """Return whether a comment on the pull request of a run that is over lets it go on."""
    try:
        return reopen(dependencies, run_id)
    except HarnessError as error:  # what has ended stays as it is
        get_run_logger().warning("comments cannot be looked for: %s", error)
        return False


def _until_over(
    request: ResolvedRequest,
    dependencies: RunDependencies,
    run_id: str,
    this: FlowRun,
    watch: RunListener,
) -> RunReport:
    """Run until the report is final. A flow run that suspends does so while it waits for a
    person, or for the checks of its pull request."""
    while True:
        if this.suspends and waits_for_approval(dependencies.runs, run_id):
            with dependencies.open_approvals() as approvals:
                suspend_until_decided(approvals, run_id)
        with exit_when_cancelled(this.id):
            cancelled = wait_for_checks(request, dependencies, run_id, suspends=this.suspends)
        if cancelled is not None:
            return cancelled
        report = attempt_run(request, dependencies, run_id, this, watch)
        if report.status != "waiting" or not (this.suspends or report.waits_for_checks):
            return report


def attempt_run(
    request: ResolvedRequest,
    dependencies: RunDependencies,
    run_id: str,
    this: FlowRun,
    watch: RunListener,
) -> RunReport:
    """Execute the run, or continue it; publish and return its report."""
    settings = load_settings()
    before = reported_at(dependencies.runs, run_id)
    with trace_run(settings.telemetry, request, run_id) as trace:
        try:
            queue = partial(waiting_in_queue, dependencies.runs, run_id, request, this)
            with (
                exit_when_cancelled(this.id),
                wait_for_turn(request, settings.limits, queue=queue),
            ):
                report = run_blueprint(
                    request,
                    trace.dependencies(dependencies),
                    run_id=run_id,
                    flow_run=this,
                    make_wrapper=lambda: trace.perform(node_task_runner()),
                    watch=watch_in_log(watch),
                )
        except (KeyboardInterrupt, TerminationSignal) as signal:
            with ignore_sigterm():
                report = _cancelled_report(signal, request, dependencies, run_id, this)
        except Exception as error:  # a door: a node may raise anything
            with suppress(HarnessError):
                reconcile_run(dependencies, run_id, error, of="queued")
                if reported_at(dependencies.runs, run_id) != before:
                    _publish(read_report(dependencies.runs, run_id), dependencies, trace)
            raise
        _publish(report, dependencies, trace)
    return report


def _publish(report: RunReport, dependencies: RunDependencies, trace: RunTrace) -> None:
    """Report the run to telemetry and Prefect."""
    trace.ended(report, dependencies.runs / report.run_id / TRAJECTORY)
    publish_report(report, read_diff(dependencies.runs, report.run_id))
    publish_view(dependencies.run_view(report.run_id), report.run_id)


def _cancelled_report(
    signal: BaseException,
    request: ResolvedRequest,
    dependencies: RunDependencies,
    run_id: str,
    this: FlowRun,
) -> RunReport:
    """Return the report of a run that was cancelled, also before it started."""
    with suppress(RunNotFound):
        return read_report(dependencies.runs, run_id)
    if not is_known(dependencies.runs, run_id):
        record_queued(dependencies.runs, run_id, request, this)
    report = reconcile_run(
        dependencies, run_id, signal, of=read_entry(dependencies.runs, run_id).state
    )
    if report is None:
        raise signal
    return report


@contextmanager
def exit_when_cancelled(flow_run_id: str, *, every_s: float = LOOK_S) -> Iterator[None]:
    """Send SIGTERM to this process if its flow run is cancelled during the block.

    A run of the command line has no worker that would do so, and a run outlives its worker. The
    process ends at once if another machine has taken over its run, as this one seemed dead.
    """
    over = Event()
    watcher = Thread(
        target=copy_context().run,
        args=(_watch, flow_run_id, over, every_s),
        name="cancel",
        daemon=True,
    )
    watcher.start()
    try:
        yield
    finally:
        over.set()


def _watch(flow_run_id: str, over: Event, every_s: float) -> None:
    if over.wait(every_s):
        return
    first = None
    with get_client(sync_client=True) as client:
        while True:
            with suppress(HTTPError, ObjectNotFound):  # the run itself reports an outage
                now = client.read_flow_run(UUID(flow_run_id))
                first = first or now
                if taken_over(first, now):
                    # Nothing is reported: the state in Prefect is that of the other machine's run.
                    _log.error("another machine has taken over flow run %s", flow_run_id)
                    os._exit(0)
                if now.state is not None and (
                    now.state.is_cancelling() or now.state.is_cancelled()
                ):
                    break
            if over.wait(every_s):
                return
    os.kill(os.getpid(), signal.SIGTERM)


def run_name(blueprint: str, repo: str, run_id: str) -> str:
    """Return a name such as `fix-tests · my-project · 3f9a0c1d`."""
    return f"{blueprint} · {repo_name(repo)} · {run_id}"


def tag_flow_run(request: ResolvedRequest) -> None:
    """Add tags to the current flow run, by which the Prefect UI can filter.

    Not before it starts: task runs inherit the tags that a flow run starts with, and for each tag
    of a task run Prefect asks the server for a concurrency limit.
    """
    tags = {
        *(flow_run.tags or ()),
        f"blueprint:{request.definition.name}",
        f"repo:{repo_name(request.repo)}",
        f"agent:{request.agent}",
        *(f"model:{name}" for name in model_names(request.model)),
    }
    with ignore_outage("the tags of the flow run"):
        get_client(sync_client=True).update_flow_run(flow_run.id, tags=sorted(tags))
