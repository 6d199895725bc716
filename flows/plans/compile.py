"""Compile a plan to a Prefect flow: each step is a task run that waits for its dependencies."""

from collections.abc import Callable
from functools import partial
from typing import cast

from prefect import Flow, State, allow_failure, flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from prefect.runtime import flow_run
from prefect.states import Completed, Failed
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.orchestration.tasks import attach_markdown, log_failures_once
from flows.plans.record import save_flow_run
from flows.plans.report import PlanReport
from flows.plans.run import PlanDependencies, open_plan_run, plan_report
from flows.plans.view import plan_view
from flows.views.markdown import view_markdown
from policy.plan.executor import PlanRun
from policy.plan.plan_log import StepOutcome
from policy.types import Approver

PlanFlow = Flow[[], State[PlanReport]]
MAX_AT_ONCE = 4


def step_task_runner() -> TaskRunner[PrefectFuture[object]]:
    """Return a task runner that runs a few steps at a time, each in a thread."""
    runner: object = ThreadPoolTaskRunner(max_workers=MAX_AT_ONCE)
    return cast(TaskRunner[PrefectFuture[object]], runner)  # its futures are a kind of these


def compile_plan(deps: PlanDependencies, run_id: str, person: Approver | None = None) -> PlanFlow:
    """Return the flow that runs the plan of this id until it is over or waits for an approval.

    Its final state is Completed, Completed with the name "Waiting", or Failed; the data is the
    `PlanReport`.
    """

    @flow(
        name="plan",
        flow_run_name=f"plan · {run_id}",
        persist_result=False,
        task_runner=step_task_runner(),
    )
    def plan_flow() -> State[PlanReport]:
        remember_flow_run(deps, run_id)
        with open_plan_run(deps, run_id, person) as run:
            run_steps(run)
        report = plan_report(deps, run_id)
        publish_report(deps, report)
        return final_state(report)

    return plan_flow


def remember_flow_run(deps: PlanDependencies, run_id: str) -> None:
    """Save the id and the address of the current flow run, for the plan's report."""
    save_flow_run(deps.log, run_id, str(flow_run.id or ""), str(flow_run.ui_url or ""))


def run_steps(run: PlanRun) -> None:
    """Run every step as a task, independent steps concurrently.

    An exception of a step, which is a bug or an outage, is raised after all other steps ended.
    """
    log_failures_once()
    futures: dict[int, PrefectFuture[object]] = {}
    for index, step in enumerate(run.plan.steps):
        name = f"{index} {step.op}"
        submit = _step_task.with_options(name=step.op, task_run_name=name).submit
        before = [allow_failure(futures[dep]) for dep in step.deps]
        futures[index] = submit(partial(run.run_step, index), return_state=False, wait_for=before)
    for future in futures.values():
        result = future.result(raise_on_failure=False)
        if isinstance(result, BaseException):
            raise result


@task(cache_policy=NO_CACHE, persist_result=False)
def _step_task(execute: Callable[[], StepOutcome]) -> object:
    outcome = execute()
    get_run_logger().info("step %d: %s %s", outcome.index, outcome.status, outcome.reason)
    match outcome.status:
        case "done":
            return Completed(data=outcome)
        case "skipped":
            return Completed(name="Skipped", message=outcome.reason, data=outcome)
        case "waiting":
            return Completed(name="Waiting", message=outcome.reason, data=outcome)
        case "denied" | "failed":
            return Failed(name=outcome.status.title(), message=outcome.reason, data=outcome)


def publish_report(deps: PlanDependencies, report: PlanReport) -> None:
    """Attach the view of the plan to the current flow run."""
    attach_markdown(
        view_markdown(plan_view(deps, report.run_id)),
        key=f"plan-{report.run_id}",
        description=f"plan: {report.status}",
    )


def final_state(report: PlanReport) -> State[PlanReport]:
    """Return the final state of the flow run."""
    match report.status:
        case "success":
            return Completed(data=report)
        case "waiting" | "planned" | "running" | "cancelled" | "lost":
            ids = ", ".join(report.approvals)
            why = f"waits for approval {ids}" if ids else f"it is {report.status}"
            return Completed(name="Waiting", message=why, data=report)
        case "failure":
            return Failed(message=report.error or "a step failed or was denied", data=report)
