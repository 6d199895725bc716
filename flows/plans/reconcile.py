"""The end of a plan that was cancelled, or whose process was killed, told by whoever outlives it.

What a plan did is in the event log: only its last word is missing there, what it asked is still
open, and what it worked in still there.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from prefect import get_client

from contracts.errors import RunNotFound, Unavailable
from flows.config.settings import load_settings
from flows.execution.cancel_waiting import deny_all, is_cancelled
from flows.execution.reconcile import end_tasks
from flows.execution.wiring import engine, owner
from flows.plans.end import note_end
from flows.plans.request import noted_plan
from flows.plans.run import PlanShop
from flows.plans.wiring import plan_shop
from sandbox.reap import reap

if TYPE_CHECKING:
    from prefect import State
    from prefect.client.schemas import FlowRun


def settle_plan(flow: object, flow_run: "FlowRun", state: "State") -> None:  # noqa: ARG001 - Prefect's signature of a hook
    """The hook of a plan's flow run that was cancelled or has crashed; Prefect's worker calls it.

    One that crashed goes on with *Retry*, so what it asked stays open.
    """
    settings = load_settings()
    if state.is_cancelling() or state.is_cancelled():
        with plan_shop(settings) as shop:
            withdraw_plan(shop, str(flow_run.id)[-8:])
    with suppress(Unavailable):  # the engine is away: what is left in it is reaped later
        reap(engine(), owner(settings))
    end_tasks(flow_run.id, state.message)


def withdraw_cancelled_plans(shop: PlanShop) -> int:
    """Deny what plans ask that were cancelled while they were suspended; how many plans."""
    denied = 0
    with get_client(sync_client=True) as client:
        for run_id in {one.run_id for one in shop.approvals.list(pending=True)}:
            with suppress(RunNotFound):  # a blueprint's
                flow_run = noted_plan(shop.log, run_id)[0].flow_run
                if flow_run and is_cancelled(client, flow_run):
                    withdraw_plan(shop, run_id)
                    denied += 1
    return denied


def withdraw_plan(shop: PlanShop, run_id: str) -> None:
    """Deny what a plan asks that was cancelled, and say so of it; nothing where none is known."""
    deny_all(shop.approvals, run_id)
    with suppress(RunNotFound):
        _, plan = noted_plan(shop.log, run_id, agreed=False)
        note_end(shop.log, run_id, plan, status="cancelled", error="it was cancelled")
