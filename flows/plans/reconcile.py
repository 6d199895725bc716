"""Finish plans that were cancelled, or whose process was killed.

Such a plan has no final status in the event log, its approvals are still pending, and its sandbox
may still exist.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from prefect import get_client

from contracts.errors import RunNotFound, Unavailable
from flows.config.settings import load_settings
from flows.execution.end_state import crash_open_tasks
from flows.execution.wiring import docker_engine, sandbox_owner
from flows.orchestration.cancel import deny_pending_approvals, is_flow_run_cancelled
from flows.plans.dependencies import plan_dependencies
from flows.plans.record import record_plan_end, recorded_plan
from flows.plans.run import PlanDependencies
from sandbox.reap import reap

if TYPE_CHECKING:
    from prefect import State
    from prefect.client.schemas import FlowRun


def reconcile_plan(flow: object, flow_run: "FlowRun", state: "State") -> None:  # noqa: ARG001 - Prefect's signature of a hook
    """Prefect's hook for a plan's flow run that was cancelled or crashed; the worker calls it.

    A crashed plan can be resumed with *Retry*, so its approvals stay pending.
    """
    settings = load_settings()
    if state.is_cancelling() or state.is_cancelled():
        with plan_dependencies(settings) as deps:
            cancel_waiting_plan(deps, str(flow_run.id)[-8:])
    with suppress(Unavailable):  # no engine: upkeep removes the sandbox later
        reap(docker_engine(), sandbox_owner(settings))
    crash_open_tasks(flow_run.id, state.message)


def cancel_waiting_plans(deps: PlanDependencies) -> int:
    """Finish plans that were cancelled while they were suspended; return their number."""
    count = 0
    with get_client(sync_client=True) as client:
        for run_id in {one.run_id for one in deps.approvals.list(pending=True)}:
            with suppress(RunNotFound):  # an approval of a blueprint's run
                flow_run = recorded_plan(deps.log, run_id)[0].flow_run
                if flow_run and is_flow_run_cancelled(client, flow_run):
                    cancel_waiting_plan(deps, run_id)
                    count += 1
    return count


def cancel_waiting_plan(deps: PlanDependencies, run_id: str) -> None:
    """Deny the pending approvals of a cancelled plan and record its status, if it has a draft."""
    deny_pending_approvals(deps.approvals, run_id)
    with suppress(RunNotFound):
        _, plan = recorded_plan(deps.log, run_id, agreed=False)
        record_plan_end(deps.log, run_id, plan, status="cancelled", error="it was cancelled")
