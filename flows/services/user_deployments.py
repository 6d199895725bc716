"""The deployments that users make of blueprints. All have the flow `run-blueprint`.

`harness deploy` makes or replaces one; `harness up` makes those of the settings. A deployment of
the settings is replaced only if its table has changed since: what users set in Prefect stays.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from contracts.errors import BadInput, OptionInvalid, PrefectUnavailable
from contracts.json import json_digest
from flows.runs.deployment_request import DeploymentRequest
from flows.services.deploy import (
    UPKEEP_QUEUE,
    WORK_POOL,
    create_pool,
    deployment_names,
    deployment_of,
    owned_fields,
)
from flows.services.prefect_server import prefect_client

if TYPE_CHECKING:
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.responses import DeploymentResponse

FLOW = "run-blueprint"
_OF_SETTINGS = "harness.toml "
"""Start of the version of a deployment that a table of the settings describes."""


class DeploymentRow(NamedTuple):
    """One deployment that starts runs, for a list."""

    name: str
    blueprint: str
    repo: str
    schedule: str
    state: str


def make_deployment(api: str, request: DeploymentRequest) -> None:
    """Create the deployment, or replace one of the same name.

    Raises:
        BadInput: Prefect refuses the schedule, or the name is one of Harness's own deployments.
        PrefectUnavailable: the server does not answer.
    """
    create_pool(api)
    _make(api, request, version="")


def make_configured(api: str, requests: Collection[DeploymentRequest]) -> tuple[str, ...]:
    """Create the deployments of the settings, replace those whose table changed; return names.

    Raises:
        BadInput, PrefectUnavailable: as `make_deployment`.
    """
    made = []
    for request in requests:
        version = _OF_SETTINGS + json_digest(request.model_dump(mode="json"))[:12]
        found = _find(api, request.name)
        if found is None or found.version != version:
            _make(api, request, version)
            made.append(request.name)
    return tuple(made)


def list_deployments(api: str) -> tuple[DeploymentRow, ...]:
    """Return all deployments of the work pool that start runs, by name.

    Raises:
        PrefectUnavailable: the server does not answer.
    """
    with prefect_client(api) as client:
        found = client.read_deployments()
    ours = (one for one in found if one.work_pool_name == WORK_POOL)
    rows = (_row(one) for one in ours if one.work_queue_name != UPKEEP_QUEUE)
    return tuple(sorted(rows))


def remove_deployment(api: str, name: str) -> None:
    """Remove a deployment that a user made; runs that it started stay.

    Raises:
        OptionInvalid: there is none of this name, or it is one of Harness's own.
        PrefectUnavailable: the server does not answer.
    """
    if name in deployment_names():
        raise OptionInvalid(
            f"{name!r} is a deployment of Harness, which `harness up` would make again: pause it "
            "in Prefect"
        )
    found = _find(api, name)
    if found is None:
        raise OptionInvalid(f"no deployment {name!r}: `harness deployments list` shows them")
    with prefect_client(api) as client:
        client.delete_deployment(found.id)


def _make(api: str, request: DeploymentRequest, version: str) -> None:
    from prefect.exceptions import PrefectHTTPStatusError

    if request.name in deployment_names():
        raise BadInput(f"{request.name!r} is a deployment of Harness: take another name")
    schedules = list(_wanted_schedules(request))
    owned = owned_fields(FLOW)
    with prefect_client(api) as client:
        try:
            client.create_deployment(
                **{**owned, "version": version or owned["version"]},
                flow_id=client.create_flow_from_name(FLOW),
                name=request.name,
                description=f"{request.blueprint} on {request.repo}",
                parameters=request.parameters,
                schedules=schedules,
                work_pool_name=WORK_POOL,
                paused=False,
                enforce_parameter_schema=True,
            )
        except PrefectHTTPStatusError as error:
            why = " ".join(error.response.text.split())[:500]
            raise PrefectUnavailable(f"{api} refuses the deployment: {why}") from error


def _wanted_schedules(request: DeploymentRequest) -> "Iterator[DeploymentScheduleCreate]":
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
    from pydantic import ValidationError

    if request.interval_s is not None:
        interval = timedelta(seconds=request.interval_s)
        yield DeploymentScheduleCreate(schedule=IntervalSchedule(interval=interval))
    if not request.cron:
        return
    try:
        schedule = CronSchedule(cron=request.cron, timezone=request.timezone)
    except ValidationError as error:
        why = error.errors(include_url=False)[0]["msg"]
        raise BadInput(f"the schedule {request.cron!r} cannot be used: {why}") from error
    yield DeploymentScheduleCreate(schedule=schedule)


def _find(api: str, name: str) -> "DeploymentResponse | None":
    with prefect_client(api) as client:
        return deployment_of(client, FLOW, name)


def _row(one: "DeploymentResponse") -> DeploymentRow:
    given: Mapping[str, object] = one.parameters or {}
    return DeploymentRow(
        name=one.name,
        blueprint=str(given.get("blueprint") or one.name),
        repo=str(given.get("repo") or ""),
        schedule="; ".join(_schedules(one)),
        state="paused" if one.paused else "ready",
    )


def _schedules(one: "DeploymentResponse") -> Iterator[str]:
    from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule

    for each in one.schedules:
        off = "" if each.active else " (off)"
        match each.schedule:
            case CronSchedule(cron=cron, timezone=zone):
                yield f"{cron} {zone or 'UTC'}{off}"
            case IntervalSchedule(interval=interval):
                yield f"every {interval}{off}"
            case _:
                yield f"by a rule of Prefect{off}"
