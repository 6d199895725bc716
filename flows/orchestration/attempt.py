"""Executes a run once inside its flow run, until it ends or waits for a person."""

from contextlib import suppress
from functools import partial

from prefect.exceptions import TerminationSignal

from blueprints.engine import RunListener
from contracts.errors import HarnessError, RunNotFound
from contracts.run import RunReport
from flows.config.settings import load_settings
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.execution.queue import record_queued, waiting_in_queue
from flows.execution.reconcile import reconcile_run
from flows.execution.telemetry import RunTrace, trace_run
from flows.orchestration.artifacts import publish_report, publish_view
from flows.orchestration.limits import wait_for_turn
from flows.orchestration.node_tasks import node_task_runner, watch_in_log
from flows.runs.layout import TRAJECTORY
from flows.runs.request import FlowRun, ResolvedRequest
from flows.runs.runs import is_known, read_diff, read_entry, read_report, reported_at
from flows.runs.signals import LOOK_S, LOOK_UNDER_WORKER_S, exit_when_cancelled, ignore_sigterm


def attempt_run(
    request: ResolvedRequest, tools: RunDependencies, run_id: str, this: FlowRun, watch: RunListener
) -> RunReport:
    """Execute the run, or continue it; publish and return its report."""
    settings = load_settings()
    before = reported_at(tools.runs, run_id)
    with trace_run(settings.telemetry, request, run_id) as trace:
        try:
            look_s = LOOK_UNDER_WORKER_S if this.suspends else LOOK_S
            look = exit_when_cancelled(this.id, every_s=look_s)
            noted = partial(waiting_in_queue, tools.runs, run_id, request, this)
            with look, wait_for_turn(request, settings.limits, queue=noted):
                report = run_blueprint(
                    request,
                    trace.dependencies(tools),
                    run_id=run_id,
                    flow_run=this,
                    perform=trace.perform(node_task_runner()),
                    lanes=lambda: trace.perform(node_task_runner()),
                    watch=watch_in_log(watch),
                )
        except (KeyboardInterrupt, TerminationSignal) as told:
            with ignore_sigterm():
                report = _cut_short(told, request, tools, run_id, this)
        except Exception as error:  # a door: what a node's author wrote may raise anything
            with suppress(HarnessError):
                reconcile_run(tools, run_id, error, of="queued")
                if reported_at(tools.runs, run_id) != before:
                    _tell(read_report(tools.runs, run_id), tools, trace)
            raise
        _tell(report, tools, trace)
    return report


def _tell(report: RunReport, tools: RunDependencies, trace: RunTrace) -> None:
    """Report the run to telemetry and Prefect."""
    trace.ended(report, tools.runs / report.run_id / TRAJECTORY)
    publish_report(report, read_diff(tools.runs, report.run_id))
    publish_view(tools.run_view(report.run_id), report.run_id)


def _cut_short(
    told: BaseException,
    request: ResolvedRequest,
    tools: RunDependencies,
    run_id: str,
    this: FlowRun,
) -> RunReport:
    """Return the report of a run that was cancelled, also before it started."""
    with suppress(RunNotFound):
        return read_report(tools.runs, run_id)
    if not is_known(tools.runs, run_id):
        record_queued(tools.runs, run_id, request, this)
    report = reconcile_run(tools, run_id, told, of=read_entry(tools.runs, run_id).state)
    if report is None:
        raise told
    return report
