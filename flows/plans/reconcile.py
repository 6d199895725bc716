"""The end of a plan that was cancelled, or whose process was killed, told by whoever outlives it.

What a plan did is in the event log: only its last word is missing there, what it asked is still
open, and what it worked in still there.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from prefect import get_client

from contracts.errors import RunNotFound, Unavailable
from flows.config.settings import load_settings
from flows.execution.cancel_waiting import deny_pending_approvals, is_flow_run_cancelled
from flows.execution.reconcile import crash_open_tasks
from flows.execution.wiring import docker_engine, sandbox_owner
from flows.plans.dependencies import plan_dependencies
from flows.plans.end import record_plan_end
from flows.plans.request import recorded_plan
from flows.plans.run import PlanDependencies
from sandbox.reap import reap

if TYPE_CHECKING:
    from prefect import State
    from prefect.client.schemas import FlowRun


def reconcile_plan(flow: object, flow_run: "FlowRun", state: "State") -> None:  # noqa: ARG001 - Prefect's signature of a hook
    """The hook of a plan's flow run that was cancelled or has crashed; Prefect's worker calls it.

    One that crashed goes on with *Retry*, so what it asked stays open.
    """
    settings = load_settings()
    if state.is_cancelling() or state.is_cancelled():
        with plan_dependencies(settings) as shop:
            cancel_waiting_plan(shop, str(flow_run.id)[-8:])
    with suppress(Unavailable):  # the engine is away: what is left in it is reaped later
        reap(docker_engine(), sandbox_owner(settings))
    crash_open_tasks(flow_run.id, state.message)


def cancel_waiting_plans(shop: PlanDependencies) -> int:
    """Deny what plans ask that were cancelled while they were suspended; how many plans."""
    denied = 0
    with get_client(sync_client=True) as client:
        for run_id in {one.run_id for one in shop.approvals.list(pending=True)}:
            with suppress(RunNotFound):  # a blueprint's
                flow_run = recorded_plan(shop.log, run_id)[0].flow_run
                if flow_run and is_flow_run_cancelled(client, flow_run):
                    cancel_waiting_plan(shop, run_id)
                    denied += 1
    return denied


def cancel_waiting_plan(shop: PlanDependencies, run_id: str) -> None:
    """Deny what a plan asks that was cancelled, and say so of it; nothing where none is known."""
    deny_pending_approvals(shop.approvals, run_id)
    with suppress(RunNotFound):
        _, plan = recorded_plan(shop.log, run_id, agreed=False)
        record_plan_end(shop.log, run_id, plan, status="cancelled", error="it was cancelled")
