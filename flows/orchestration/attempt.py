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
from flows.execution.reconcile import reconcile_run
from flows.execution.telemetry import RunTrace, trace_run
from flows.orchestration.artifacts import publish_report, publish_view
from flows.orchestration.limits import wait_for_turn
from flows.orchestration.node_tasks import node_task_runner, watch_in_log
from flows.runs.home import TRAJECTORY
from flows.runs.request import FlowRun, ResolvedRequest
from flows.runs.run_record import record_queued, waiting_in_queue
from flows.runs.runs import is_known, read_diff, read_entry, read_report, reported_at
from flows.runs.signals import LOOK_S, LOOK_UNDER_WORKER_S, exit_when_cancelled, ignore_sigterm


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
            look_s = LOOK_UNDER_WORKER_S if this.suspends else LOOK_S
            look = exit_when_cancelled(this.id, every_s=look_s)
            noted = partial(waiting_in_queue, dependencies.runs, run_id, request, this)
            with look, wait_for_turn(request, settings.limits, queue=noted):
                report = run_blueprint(
                    request,
                    trace.dependencies(dependencies),
                    run_id=run_id,
                    flow_run=this,
                    perform=trace.perform(node_task_runner()),
                    lanes=lambda: trace.perform(node_task_runner()),
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
