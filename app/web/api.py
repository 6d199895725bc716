"""The HTTP API: plans made of prompts, run, decided about, and followed."""

from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version
from typing import Annotated

from anyio import sleep
from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.utils import get_openapi
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.routing import Match

from app.web.api_models import (
    ApprovalAnswer,
    DecisionBody,
    PlanAnswer,
    PromptBody,
    RunBody,
    Started,
    approval_answer,
    plan_answer,
)
from app.web.api_route import ApiRoute, Problem
from flows.approval_decided import resume_in_background
from flows.config.settings import load_settings
from flows.execution.wiring import open_event_log
from flows.plans.background import start_background_plan
from flows.plans.dependencies import plan_dependencies
from flows.plans.record import plan_delta
from flows.plans.request import PlanRequest
from flows.plans.run import PlanDependencies
from flows.plans.state import agree_to_plan, plan_state, record_draft
from policy.log.event_log import EventLog
from policy.log.events import Event
from policy.plan.registry import plain_json

DECIDED_BY = "the API"
POLL_S = 0.2
"""How often the log is looked at for those who follow it."""

router = APIRouter(route_class=ApiRoute, responses={"4XX": {"model": Problem}})


def is_api_request(request: Request) -> bool:
    """Whether the path is one of the routes here, whatever the method."""
    return any(route.matches(request.scope)[0] != Match.NONE for route in router.routes)


def open_shop() -> Iterator[PlanDependencies]:
    """What plans are made with, closed when the answer is sent."""
    with plan_dependencies(load_settings()) as shop:
        yield shop


def opened_log() -> Iterator[EventLog]:
    """The event log, closed when the answer is sent, or its reader is gone."""
    with open_event_log() as log:
        yield log


Shop = Annotated[PlanDependencies, Depends(open_shop)]
Log = Annotated[EventLog, Depends(opened_log)]


@router.post("/prompts", status_code=201)
def draft(asked: PromptBody, shop: Shop, response: Response) -> PlanAnswer:
    """Make a plan of a prompt; nothing is run. A small model may take a minute."""
    outside = asked.intent_from if asked.intent is not None else ""
    request = PlanRequest(
        prompt=asked.prompt,
        repo=asked.repo,
        grants=asked.grants,
        allow_change=asked.allow_change,
        intent=asked.intent,
        intent_from=outside,
    )
    made = plan_answer(plan_state(shop, record_draft(shop, request)))
    response.headers["Location"] = f"/plans/{made.id}"
    return made


@router.get("/plans/{id}")
def show(id: str, shop: Shop) -> PlanAnswer:  # noqa: A002 - the word of the path
    """A plan, how its steps ended, and what waits for a decision."""
    return plan_answer(plan_state(shop, id))


@router.post("/plans/{id}/run", status_code=202)
def run(
    id: str,  # noqa: A002 - the word of the path
    shop: Shop,
    agreed: RunBody | None = None,
) -> Started:
    """Agree to a plan and run it, in a process of its own; once more goes on where it stands."""
    agree_to_plan(shop, id, (agreed or RunBody()).grants)
    start_background_plan(load_settings(), id)
    return Started(id=id)


@router.post("/approvals/{id}", status_code=202)
def decide(
    id: str,  # noqa: A002 - the word of the path
    said: DecisionBody,
    shop: Shop,
) -> ApprovalAnswer:
    """Approve or deny exactly this action, once; its plan, or its suspended run, goes on.

    An agent still at work may ask again; a run of the command line goes on by
    `harness runs resume`.
    """
    decided = shop.approvals.decide(id, said.status, by=DECIDED_BY, reason=said.reason)
    resume_in_background(shop, load_settings(), decided)
    return approval_answer(decided)


def _start(
    log: Log,
    after: Annotated[
        int | None,
        Query(ge=0, lt=2**63, description="Begin after this number; 0: from the first event."),
    ] = None,
    last_event_id: Annotated[int | None, Header(ge=0, lt=2**63)] = None,
) -> int:
    given = last_event_id if last_event_id is not None else after
    return log.last_number() if given is None else given


@router.get("/events", response_class=EventSourceResponse)
async def follow(
    log: Log, start: Annotated[int, Depends(_start)], run: str | None = None
) -> AsyncIterator[ServerSentEvent]:
    """Events as they happen, as `event`, and what they change about plans, as `plan`.

    They begin with the next one, or after `Last-Event-ID`. `run` chooses one run.
    """
    while True:
        found = await run_in_threadpool(log.events_after, start, run_id=run)
        for number, event in found:
            for sent in _sent(number, event):
                yield sent
            start = number
        if not found:
            await sleep(POLL_S)


def _sent(number: int, event: Event) -> Iterator[ServerSentEvent]:
    """The delta goes before its event, which alone has a number: cut between, both come again."""
    delta = plan_delta(event)
    if delta is not None:
        yield ServerSentEvent(event="plan", data=plain_json(delta))
    body = {"id": event.id, **event.as_json()}
    yield ServerSentEvent(event="event", id=str(number), data=plain_json(body))


@router.get("/openapi.json", include_in_schema=False)
def openapi() -> dict[str, object]:
    """The description of these routes."""
    about = (
        "Plans of Harness. Served on this machine only, unless a token is set: then send it as "
        "`Authorization: Bearer …`."
    )
    return get_openapi(
        title="Harness", version=version("harness"), description=about, routes=router.routes
    )
