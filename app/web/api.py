"""The HTTP API: make and run plans, decide approvals, follow events, get views as JSON."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
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
    PlanLine,
    PromptBody,
    RunBody,
    Started,
    approval_answer,
    plan_answer,
)
from app.web.errors import ApiRoute, Problem, wants_page
from contracts.errors import RunNotFound
from flows.config.settings import load_settings
from flows.execution.wiring import open_event_log
from flows.plans.dependencies import plan_dependencies
from flows.plans.manage import list_plans
from flows.plans.record import plan_delta
from flows.plans.request import PlanRequest
from flows.plans.run import PlanDependencies
from flows.plans.start import resume_in_background, start_background_plan
from flows.plans.state import agree_to_plan, plan_state, record_draft
from flows.plans.view import plan_view, plans_view
from flows.runs.runs import is_known
from flows.views.run import run_view
from flows.views.spec import ViewSpec, view_schema
from policy.log.event_log import EventLog
from policy.log.events import Event
from policy.plan.registry import plain_json

DECIDED_BY = "the API"
MAX_LISTED = 1_000
POLL_S = 0.2
"""Seconds between two queries of the event log for a stream without new events."""

router = APIRouter(route_class=ApiRoute, responses={"4XX": {"model": Problem}})


def is_api_request(request: Request) -> bool:
    """Return True if the path is one of the routes of this module, whatever the method.

    Where the API and a page share a path, a client that accepts HTML gets the page.
    """
    return not wants_page(request.scope) and any(
        route.matches(request.scope)[0] != Match.NONE for route in router.routes
    )


def open_dependencies() -> Iterator[PlanDependencies]:
    """Open the dependencies of plans until the response is sent."""
    with plan_dependencies(load_settings()) as dependencies:
        yield dependencies


def open_log() -> Iterator[EventLog]:
    """Open the event log until the response is sent or the client disconnects."""
    with open_event_log() as log:
        yield log


PlanDependency = Annotated[PlanDependencies, Depends(open_dependencies)]
Log = Annotated[EventLog, Depends(open_log)]


@router.post("/prompts", status_code=201)
def draft(body: PromptBody, dependencies: PlanDependency, response: Response) -> PlanAnswer:
    """Make a plan from a prompt; nothing is run. A small model may take a minute."""
    request = PlanRequest(**dict(body))
    made = plan_answer(plan_state(dependencies, record_draft(dependencies, request)))
    response.headers["Location"] = f"/plans/{made.id}"
    return made


@router.get("/plans")
def plans(
    dependencies: PlanDependency, limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 20
) -> list[PlanLine]:
    """Return the newest plans, newest first."""
    found = list_plans(dependencies, limit=limit)
    return [PlanLine.model_validate({**asdict(one), "id": one.run_id}) for one in found]


@router.get("/plans/{id}")
def show(id: str, dependencies: PlanDependency) -> PlanAnswer:  # noqa: A002 - part of the path
    """Return a plan, the results of its steps, and its pending approvals."""
    return plan_answer(plan_state(dependencies, id))


@router.post("/plans/{id}/run", status_code=202)
def run(
    id: str,  # noqa: A002 - part of the path
    dependencies: PlanDependency,
    body: RunBody | None = None,
) -> Started:
    """Agree to a plan and run it in a process of its own; called again, continue the plan."""
    agree_to_plan(dependencies, id, (body or RunBody()).grants)
    start_background_plan(load_settings(), id)
    return Started(id=id)


@router.post("/approvals/{id}", status_code=202)
def decide(
    id: str,  # noqa: A002 - part of the path
    body: DecisionBody,
    dependencies: PlanDependency,
) -> ApprovalAnswer:
    """Approve or deny exactly this action, once; its plan or its suspended run continues.

    An agent that is still at work may ask again; a run of the command line continues with
    `harness runs resume`.
    """
    decided = dependencies.approvals.decide(id, body.status, by=DECIDED_BY, reason=body.reason)
    resume_in_background(dependencies, load_settings(), decided)
    return approval_answer(decided)


@router.get("/views/schema.json")
def schema() -> dict[str, object]:
    """Return the JSON Schema of all views."""
    return view_schema()


@router.get("/views/plans")
def list_view(
    dependencies: PlanDependency, limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100
) -> ViewSpec:
    """Return the list of plans as a view."""
    return plans_view(dependencies, limit=limit)


@router.get("/views/plans/{id}")
def view_plan(id: str, dependencies: PlanDependency) -> ViewSpec:  # noqa: A002 - part of the path
    """Return a plan as a view: its steps, decisions, answers and events."""
    return plan_view(dependencies, id)


@router.get("/views/runs/{id}")
def view_run(id: str, log: Log) -> ViewSpec:  # noqa: A002 - part of the path
    """Return the data flow and the decisions of a run as a view."""
    history = log.history(id)
    if not history.events and not is_known(load_settings().runs, id):
        raise RunNotFound(f"no run {id!r} in this home or in its event log")
    return run_view(history, id)


def _start(
    log: Log,
    after: Annotated[
        int | None,
        Query(ge=0, lt=2**63, description="Start after this number; 0: with the first event."),
    ] = None,
    last_event_id: Annotated[int | None, Header(ge=0, lt=2**63)] = None,
) -> int:
    start = last_event_id if last_event_id is not None else after
    return log.last_number() if start is None else start


@router.get("/events", response_class=EventSourceResponse)
async def follow(
    log: Log, start: Annotated[int, Depends(_start)], run: str | None = None
) -> AsyncIterator[ServerSentEvent]:
    """Send new events as `event`, and their changes of plans as `plan`.

    The stream starts with the next event, or after `Last-Event-ID`. `run` selects one run.
    """
    while True:
        found = await run_in_threadpool(log.events_after, start, run_id=run)
        for number, event in found:
            for message in _messages(number, event):
                yield message
            start = number
        if not found:
            await sleep(POLL_S)


def _messages(number: int, event: Event) -> Iterator[ServerSentEvent]:
    # Only `event` has an id and it comes last, so a client that reconnects loses neither message.
    delta = plan_delta(event)
    if delta is not None:
        yield ServerSentEvent(event="plan", data=plain_json(delta))
    body = {"id": event.id, **event.as_json()}
    yield ServerSentEvent(event="event", id=str(number), data=plain_json(body))


@router.get("/openapi.json", include_in_schema=False)
def openapi() -> dict[str, object]:
    """Return the OpenAPI description of these routes."""
    description = (
        "Plans of Harness. Without a token the server accepts requests from this machine only; "
        "with one, send it as `Authorization: Bearer …`."
    )
    return get_openapi(
        title="Harness",
        version=version("harness"),
        description=description,
        routes=router.routes,
    )
