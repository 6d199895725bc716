"""Plans for the tests of pages and of the API: what makes them, and one that waits."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

from contracts.chat import ChatRequest, Message, Reply
from flows.config.settings import load_settings
from flows.execution.wiring import open_event_log
from flows.plans.dependencies import plan_dependencies
from flows.plans.run import PlanDependencies
from tests.support.waiting import wait_until

PROMPT = "mail what the form says to the team"
FORM = "stranger@example.net"


def mailing(to: object) -> str:
    """A plan that needs no sandbox: one mail, written by the planner but for who gets it."""
    step = {
        "op": "send_email",
        "args": {"to": to, "subject": "Q2", "body": "up by a third"},
        "tool_caps": ["SEND_EMAIL"],
        "deps": [],
    }
    return json.dumps({"steps": [step]})


HARMLESS = mailing(["team@example.org"])
STEERED = mailing([{"$ref": "input.intent"}])
"""Whoever wrote the form decides who gets the mail: that is stopped."""


def planner(*plans: str) -> Callable[[ChatRequest], Reply]:
    """Writes these plans, one after the other."""
    left = list(plans)

    def complete(request: ChatRequest) -> Reply:
        return Reply(message=Message(role="assistant", content=left.pop(0)))

    return complete


def shop_of(*plans: str) -> Callable[[], Iterator[PlanDependencies]]:
    """The shop of this home, whose planner writes these; for `dependency_overrides`."""
    complete = planner(*plans)

    def opened() -> Iterator[PlanDependencies]:
        with plan_dependencies(load_settings()) as shop:
            yield replace(shop, complete=complete)

    return opened


def wait_for_reports(run_id: str, times: int) -> None:
    """Wait until so many processes that went on with a run have said their last word."""
    with open_event_log() as log:
        wait_until(lambda: len(log.events(run_id, kind="report")) >= times)
