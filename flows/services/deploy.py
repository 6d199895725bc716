"""The work pool and the deployments on a Prefect server, and runs started from them.

`prefect.yaml` lists the deployments. Harness owns a deployment's entrypoint, version, parameter
schema and pull steps. Everything else belongs to the users of the server: `prefect.yaml` gives a
new deployment its schedules, limits and pool, and an existing one keeps what users set. `prefect
deploy --all` makes the same deployments, but resets those that exist.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from contracts.errors import OptionInvalid, PrefectUnavailable
from flows.services.prefect_server import prefect_client, use_server

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.responses import DeploymentResponse

WORK_POOL = "harness"
UPKEEP_QUEUE = "upkeep"
"""The queue of the upkeep deployments in `prefect.yaml`, and the suffix of its worker's name."""

JOB_COMMAND = "python -P -m flows.host.run_process"
"""The pool's command for a run. Prefect's own starts three Python processes in a row."""

UPKEEP_PREFIX = "zz-"
"""Start of the names of upkeep deployments, by which Prefect lists them last. Their flows, and the
deployments of earlier versions, are named without it."""

_DROPPED_SCHEDULES = {"answer-comments": 300.0}
"""Intervals of schedules that earlier versions made and that are not taken over."""

_FLOWS = Path(__file__).parents[1]

_Entry = Mapping[str, Any]
"""One deployment of `prefect.yaml`."""


class DeployResult(NamedTuple):
    """Whether `deploy` changed anything on the server, and notes for the user, one line each."""

    changed: bool
    notes: tuple[str, ...] = ()


def deploy(api: str) -> DeployResult:
    """Create or update the work pool and all deployments of `prefect.yaml`.

    Raises:
        PrefectUnavailable: the server does not answer, or refuses one of them.
    """
    create_pool(api)
    return deploy_file(api, _prefect_yaml())


def deploy_file(api: str, file: Path) -> DeployResult:
    """Create the deployments of this `prefect.yaml` that are missing, update what Harness owns.

    Notes name deployments that could not be brought up to date, and those whose flow does not
    exist in this version of Harness.

    Raises:
        PrefectUnavailable: the server does not answer, or refuses one of them.
    """
    from httpx import HTTPError
    from prefect import get_client
    from prefect.utilities.templating import apply_values

    content = _read(file)
    filled: Any = apply_values({"pull": content["pull"]}, {}, remove_notset=False)
    entries = content["deployments"]
    try:
        with use_server(api), get_client(sync_client=True) as client:
            results = [_deploy_one(client, entry, filled["pull"]) for entry in entries]
            results += _update_others(client, entries, filled["pull"])
            pools = {entry["work_pool"]["name"] for entry in entries}
            obsolete = tuple(_obsolete(client, pools))
    except HTTPError as error:
        why = " ".join(str(error).split())[-500:]
        raise PrefectUnavailable(f"cannot create the deployments at {api}: {why}") from error
    notes = (note for result in results for note in result.notes)
    return DeployResult(any(result.changed for result in results), (*notes, *obsolete))


def deployment_names() -> tuple[str, ...]:
    """Return the names in `prefect.yaml`, in its order."""
    return tuple(entry["name"] for entry in _read(_prefect_yaml())["deployments"])


def owned_fields(name: str) -> dict[str, Any]:
    """Return the fields that Harness owns in deployments with the flow of this entry."""
    from prefect.utilities.templating import apply_values

    content = _read(_prefect_yaml())
    entry = next(one for one in content["deployments"] if one["name"] == name)
    filled: Any = apply_values({"pull": content["pull"]}, {}, remove_notset=False)
    return _owned(entry, filled["pull"])[1]


def deployment_of(client: "SyncPrefectClient", flow: str, name: str) -> "DeploymentResponse | None":
    """Return the deployment of this flow and name, or None."""
    from prefect.exceptions import ObjectNotFound

    try:
        return client.read_deployment_by_name(f"{flow}/{name}")
    except ObjectNotFound:
        return None


def start_deployment(api: str, name: str, parameters: Mapping[str, object]) -> str:
    """Start a run of the deployment of this name; return the id of its flow run.

    Raises:
        OptionInvalid: there is no such deployment, or its form refuses a value.
        PrefectUnavailable: the server does not answer.
    """
    from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

    with prefect_client(api) as client:
        try:
            flow = name.removeprefix(UPKEEP_PREFIX)
            found = client.read_deployment_by_name(f"{flow}/{name}")
            run = client.create_flow_run_from_deployment(found.id, parameters=dict(parameters))
        except ObjectNotFound as error:
            raise OptionInvalid(f"no deployment {name!r} on {api}") from error
        except PrefectHTTPStatusError as error:
            why = " ".join(error.response.text.split())[:500]
            raise OptionInvalid(f"deployment {name!r} refuses these parameters: {why}") from error
    return str(run.id)


def online_workers(api: str) -> tuple[str, ...] | None:
    """Return the names of workers that can execute runs now; None if there is no work pool."""
    from prefect.exceptions import ObjectNotFound

    with prefect_client(api) as client:
        try:
            client.read_work_pool(WORK_POOL)  # the next request raises no ObjectNotFound
            found = client.read_workers_for_work_pool(WORK_POOL)
        except ObjectNotFound:
            return None
    names = (worker.name for worker in found if worker.status == "ONLINE")
    return tuple(name for name in names if not name.endswith(f"-{UPKEEP_QUEUE}"))


def missing_worker_warning(api: str) -> str | None:
    """Return one line for the user if nothing would execute a deployment's runs, else None."""
    match online_workers(api):
        case None:
            return f"no work pool {WORK_POOL!r} on {api}: run `harness up`, which creates it"
        case ():
            return f"no worker is online in work pool {WORK_POOL!r}: run `harness up`"
        case _:
            return None


def _prefect_yaml() -> Path:
    """An installed Harness has it in `flows/`, a checkout at the top."""
    return next(
        path for path in (_FLOWS / "prefect.yaml", _FLOWS.parent / "prefect.yaml") if path.is_file()
    )


def _read(file: Path) -> Mapping[str, Any]:
    import yaml

    content: Mapping[str, Any] = yaml.safe_load(file.read_text())
    return content


def create_pool(api: str) -> None:
    """Create the process work pool; a command that users gave it stays."""
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectAlreadyExists
    from prefect.workers.process import ProcessWorker

    with prefect_client(api) as client:
        with suppress(ObjectAlreadyExists):
            client.create_work_pool(WorkPoolCreate(name=WORK_POOL, type="process"))
        pool = client.read_work_pool(WORK_POOL)
        if pool.type != "process":
            return
        template = pool.base_job_template or ProcessWorker.get_default_base_job_template()
        command = template["variables"]["properties"]["command"]
        if command["default"] is None:
            command["default"] = JOB_COMMAND
            client.update_work_pool(WORK_POOL, WorkPoolUpdate(base_job_template=template))


def _owned(entry: _Entry, pull: object) -> "tuple[Flow[..., Any], dict[str, Any]]":
    """Return the flow of an entry, and the fields of its deployments that Harness owns."""
    from prefect.flows import load_flow_from_entrypoint
    from prefect.utilities.callables import parameter_schema

    flow: Flow[..., Any] = load_flow_from_entrypoint(entry["entrypoint"])
    return flow, {
        "entrypoint": entry["entrypoint"],
        "version": flow.version,
        "parameter_openapi_schema": parameter_schema(flow).model_dump(exclude_unset=True),
        "pull_steps": pull,
    }


def _update_others(
    client: "SyncPrefectClient", entries: Sequence[_Entry], pull: object
) -> list[DeployResult]:
    """Update deployments that users made of a flow of these entries."""
    by_entrypoint = {entry["entrypoint"]: entry for entry in entries}
    results = []
    for found in client.read_deployments():
        entry = by_entrypoint.get(found.entrypoint or "")
        if entry is not None and found.name != entry["name"]:
            _, owned = _owned(entry, pull)
            del owned["version"]  # it may say which settings the deployment is from
            results.append(_update(client, found, owned))
    return results


def _deploy_one(client: "SyncPrefectClient", entry: _Entry, pull: object) -> DeployResult:
    from prefect.exceptions import PrefectHTTPStatusError

    flow, owned = _owned(entry, pull)
    for is_last in (False, True):
        if found := deployment_of(client, flow.name, entry["name"]):
            return _update(client, found, owned)
        try:
            if not _rename(client, flow, entry, owned):
                _create(client, flow, entry, owned)
            break
        except PrefectHTTPStatusError:  # another home created it, or its queue, at this moment
            if is_last:
                raise
    return DeployResult(changed=True)


def _create(
    client: "SyncPrefectClient", flow: "Flow[..., Any]", entry: _Entry, owned: dict[str, Any]
) -> None:
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.objects import ConcurrencyOptions, VersionInfo

    pool, limit = entry["work_pool"], entry.get("concurrency_limit") or {}
    schedules = [{"schedule": schedule} for schedule in entry.get("schedules", ())]
    client.create_deployment(
        **owned,
        flow_id=client.create_flow_from_name(flow.name),
        name=entry["name"],
        # Else Prefect takes it from the git repository of the current directory.
        version_info=VersionInfo(type="prefect:simple", version=owned["version"] or ""),
        description=flow.description,
        tags=list(entry.get("tags", ())),
        work_pool_name=pool["name"],
        work_queue_name=pool.get("work_queue_name"),
        schedules=[DeploymentScheduleCreate.model_validate(each) for each in schedules],
        concurrency_limit=limit.get("limit"),
        concurrency_options=(
            ConcurrencyOptions(collision_strategy=limit["collision_strategy"]) if limit else None
        ),
        paused=False,
        enforce_parameter_schema=True,
    )


def _rename(
    client: "SyncPrefectClient", flow: "Flow[..., Any]", entry: _Entry, owned: dict[str, Any]
) -> bool:
    """Replace the deployment that earlier versions named without the prefix; False if none is.

    The new one has all that users set. Prefect can rename no deployment.
    """
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.exceptions import ObjectNotFound

    name = entry["name"].removeprefix(UPKEEP_PREFIX)
    former = deployment_of(client, flow.name, name) if name != entry["name"] else None
    if former is None:
        return False
    limit = former.global_concurrency_limit
    client.create_deployment(
        **owned,
        flow_id=former.flow_id,
        name=entry["name"],
        description=former.description,
        tags=former.tags,
        parameters=former.parameters,
        job_variables=former.job_variables,
        work_pool_name=former.work_pool_name,
        work_queue_name=former.work_queue_name,
        schedules=[
            DeploymentScheduleCreate.model_validate(
                one.model_dump(include=set(DeploymentScheduleCreate.model_fields))
            )
            for one in former.schedules
            if not _is_dropped(name, one.schedule)
        ],
        concurrency_limit=limit.limit if limit else None,
        concurrency_options=former.concurrency_options,
        paused=former.paused,
        enforce_parameter_schema=former.enforce_parameter_schema,
    )
    with suppress(ObjectNotFound):  # another home deletes it at this moment
        client.delete_deployment(former.id)
    return True


def _is_dropped(name: str, schedule: object) -> bool:
    from prefect.client.schemas.schedules import IntervalSchedule

    interval_s = _DROPPED_SCHEDULES.get(name)
    return (
        isinstance(schedule, IntervalSchedule) and schedule.interval.total_seconds() == interval_s
    )


def _update(
    client: "SyncPrefectClient", existing: "DeploymentResponse", owned: dict[str, Any]
) -> DeployResult:
    """Send only the owned fields that differ: a field that is sent replaces what users set."""
    from httpx import codes
    from prefect.client.schemas.actions import DeploymentUpdate
    from prefect.exceptions import PrefectHTTPStatusError

    changes = {name: value for name, value in owned.items() if getattr(existing, name) != value}
    if not changes:
        return DeployResult(changed=False)
    try:
        client.update_deployment(existing.id, DeploymentUpdate(**changes))
    except PrefectHTTPStatusError as error:
        if error.response.status_code != codes.CONFLICT or not existing.parameters:
            raise
        # The server refuses a schema that the deployment's default parameters do not fit.
        changes.pop("parameter_openapi_schema", None)
        client.update_deployment(existing.id, DeploymentUpdate(**changes))
        note = (
            f"deployment {existing.name!r}: its default parameters do not fit the form of this "
            "version, so it keeps its old form: correct them in Prefect, then run `harness up`"
        )
        return DeployResult(changed=True, notes=(note,))
    return DeployResult(changed=True)


def _obsolete(client: "SyncPrefectClient", pools: set[str]) -> Iterator[str]:
    """A note for each deployment in these pools whose flow does not exist any more."""
    for deployment in client.read_deployments():
        if deployment.work_pool_name in pools and _is_missing(deployment.entrypoint or ""):
            yield (
                f"deployment {deployment.name!r}: this version of Harness has no flow "
                f"{deployment.entrypoint!r}; delete the deployment in Prefect if nobody needs it"
            )


def _is_missing(entrypoint: str) -> bool:
    module, _, name = entrypoint.rpartition(".")
    if not module.startswith("flows.") or "/" in entrypoint or ":" in entrypoint:
        return False
    try:
        return not hasattr(import_module(module), name)
    except ModuleNotFoundError:
        return True
