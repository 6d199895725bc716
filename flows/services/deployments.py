"""What `prefect.yaml` lists, made on a server by Prefect's own client.

Harness owns of a deployment its entrypoint, version, parameter schema and pull steps. Everything
else belongs to the users of the server: `prefect.yaml` says how a new deployment begins, and an
existing one keeps its schedules, parameters, limits, tags, description, pool and paused state.
`prefect deploy --all` makes the same deployments, but resets those that exist.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel

from contracts.errors import PrefectUnavailable
from flows.services.prefect_client import use_server

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.responses import DeploymentResponse
    from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule

    AnyFlow = Flow[..., Any]


Steps = list[dict[str, object]]


class _Pool(BaseModel, frozen=True, extra="forbid"):
    name: str
    work_queue_name: str | None = None


class _Limit(BaseModel, frozen=True, extra="forbid"):
    limit: int
    collision_strategy: Literal["ENQUEUE", "CANCEL_NEW"]


class _Schedule(BaseModel, frozen=True, extra="forbid"):
    cron: str | None = None
    interval: timedelta = timedelta()

    def made(self) -> "CronSchedule | IntervalSchedule":
        from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule

        return (
            CronSchedule(cron=self.cron) if self.cron else IntervalSchedule(interval=self.interval)
        )


class _Entry(BaseModel, frozen=True, extra="forbid"):
    name: str
    entrypoint: str
    work_pool: _Pool
    concurrency_limit: _Limit | None = None
    schedules: Sequence[_Schedule] = ()


class _File(BaseModel, frozen=True):
    """As much of a `prefect.yaml` as ours says."""

    pull: Steps
    deployments: Sequence[_Entry]


def names(file: Path) -> tuple[str, ...]:
    """The names of the deployments in a `prefect.yaml`, in its order."""
    return tuple(entry.name for entry in _read(file).deployments)


def deploy_file(api: str, file: Path) -> tuple[str, ...]:
    """Make the deployments of the file that are missing, and bring what Harness owns up to date.

    Returns notes for the user, one line each: what could not be brought up to date, and which
    deployments point at a flow that this version of Harness does not have.

    Raises:
        PrefectUnavailable: the server does not answer or refuses one of them.
    """
    from prefect.client.orchestration import get_client
    from prefect.utilities.templating import apply_values

    found = _read(file)
    filled = apply_values({"steps": found.pull}, {}, remove_notset=False)
    pull = cast("dict[str, Steps]", filled)["steps"]  # NotSet is for a mere name
    with use_server(api), _one_line(api), get_client(sync_client=True) as client:
        notes = [note for one in found.deployments if (note := _make(client, one, pull))]
        return (*notes, *_without_flow(client, {one.work_pool.name for one in found.deployments}))


def _read(file: Path) -> _File:
    import yaml

    return _File.model_validate(yaml.safe_load(file.read_text()))


def _make(client: "SyncPrefectClient", entry: _Entry, pull: Steps) -> str | None:
    """Create the deployment or update it; a note if that could be done in part only."""
    from prefect.exceptions import PrefectHTTPStatusError
    from prefect.flows import load_flow_from_entrypoint
    from prefect.utilities.callables import parameter_schema

    flow: AnyFlow = load_flow_from_entrypoint(entry.entrypoint)
    owned = {
        "entrypoint": entry.entrypoint,
        "version": flow.version,
        "parameter_openapi_schema": parameter_schema(flow).model_dump(exclude_unset=True),
        "pull_steps": pull,
    }
    there = _existing(client, entry, flow)
    if there is None:
        try:
            _create(client, entry, flow, owned)
        except PrefectHTTPStatusError:  # another home made it, or its queue, at the same moment
            there = _existing(client, entry, flow)
            if there is None:
                _create(client, entry, flow, owned)
    return _update(client, there, owned) if there is not None else None


def _existing(
    client: "SyncPrefectClient", entry: _Entry, flow: "AnyFlow"
) -> "DeploymentResponse | None":
    from prefect.exceptions import ObjectNotFound

    try:
        return client.read_deployment_by_name(f"{flow.name}/{entry.name}")
    except ObjectNotFound:
        return None


def _create(
    client: "SyncPrefectClient", entry: _Entry, flow: "AnyFlow", owned: Mapping[str, Any]
) -> None:
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.objects import ConcurrencyOptions, VersionInfo

    limit = entry.concurrency_limit
    client.create_deployment(
        **owned,
        flow_id=client.create_flow_from_name(flow.name),
        name=entry.name,
        # Else Prefect takes it from whatever git repository a person is in.
        version_info=VersionInfo(type="prefect:simple", version=owned["version"] or ""),
        description=flow.description,
        work_pool_name=entry.work_pool.name,
        work_queue_name=entry.work_pool.work_queue_name,
        schedules=[DeploymentScheduleCreate(schedule=one.made()) for one in entry.schedules],
        concurrency_limit=limit.limit if limit else None,
        concurrency_options=(
            ConcurrencyOptions.model_validate({"collision_strategy": limit.collision_strategy})
            if limit
            else None
        ),
        paused=False,
        enforce_parameter_schema=True,
    )


def _update(
    client: "SyncPrefectClient", there: "DeploymentResponse", owned: Mapping[str, Any]
) -> str | None:
    """Send what Harness owns and what differs: a field that is sent replaces what users set."""
    from httpx import codes
    from prefect.client.schemas.actions import DeploymentUpdate
    from prefect.exceptions import PrefectHTTPStatusError

    changed = {name: value for name, value in owned.items() if getattr(there, name) != value}
    if not changed:
        return None
    try:
        client.update_deployment(there.id, DeploymentUpdate(**changed))
    except PrefectHTTPStatusError as error:
        if error.response.status_code != codes.CONFLICT or not there.parameters:
            raise
        # The server refuses a form that the user's default parameters do not fit.
        changed.pop("parameter_openapi_schema", None)
        client.update_deployment(there.id, DeploymentUpdate(**changed))
        return (
            f"deployment {there.name!r}: its default parameters do not fit the form of this "
            "version, so it keeps its old form: correct them in Prefect, then `harness up`"
        )
    return None


def _without_flow(client: "SyncPrefectClient", pools: set[str]) -> Iterator[str]:
    """A note for each deployment in these pools whose flow Harness does not have any more."""
    for one in client.read_deployments():
        if one.work_pool_name in pools and _is_missing(one.entrypoint or ""):
            yield (
                f"deployment {one.name!r}: this version of Harness has no flow "
                f"{one.entrypoint!r}; it stays as it is, delete it in Prefect if nobody needs it"
            )


def _is_missing(entrypoint: str) -> bool:
    module, _, name = entrypoint.rpartition(".")
    if not module.startswith("flows.") or "/" in entrypoint or ":" in entrypoint:
        return False
    try:
        return not hasattr(import_module(module), name)
    except ModuleNotFoundError:
        return True


@contextmanager
def _one_line(api: str) -> Iterator[None]:
    """Say what went wrong in one line."""
    from httpx import HTTPError

    try:
        yield
    except HTTPError as error:
        why = " ".join(str(error).split())[-500:]
        raise PrefectUnavailable(f"the deployments cannot be made at {api}: {why}") from error
