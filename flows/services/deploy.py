"""What a Prefect server must hold so that runs can be started from it: pool and deployments.

`prefect.yaml` says which deployments there are. They are compared with the server only when that
file or our code has changed, or one is missing; what users set on a deployment stays in any case.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from contracts.errors import OptionInvalid
from flows.config.settings import Settings
from flows.services import deployments, prefect_server
from flows.services.prefect_client import prefect_client

WORK_POOL = "harness"
UPKEEP_QUEUE = "upkeep"
"""The queue that `prefect.yaml` puts the upkeep into, and how the name of its worker ends."""

JOB_COMMAND = "python -P -m flows.host.run_process"
"""What does a run. Without it a worker starts three Python processes for one run, in a row."""

_FLOWS = Path(__file__).parents[1]
_BLUEPRINTS = _FLOWS.parent / "blueprints" / "library"


class DeployResult(NamedTuple):
    """The names of all deployments, whether they were deployed just now, and notes on that."""

    names: tuple[str, ...]
    changed: bool
    notes: tuple[str, ...] = ()


def deploy(api: str, settings: Settings) -> DeployResult:
    """Make the work pool and all deployments, unless they are there as they should be.

    What users changed on a deployment stays, whichever home or version of Harness deploys.

    Raises:
        PrefectUnavailable: the server does not answer or refuses one of them.
    """
    names = deployment_names()
    stamp = settings.home / "prefect" / "deployed"
    now = f"{_whose(api, settings)} {_digest()}"
    if stamp.is_file() and stamp.read_text() == now and not set(names) - _known(api):
        return DeployResult(names, changed=False)
    _make_pool(api)
    notes = deployments.deploy_file(api, _file())
    if not notes:  # else the next call looks again
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(now)
    return DeployResult(names, changed=True, notes=notes)


def online_workers(api: str) -> tuple[str, ...] | None:
    """The names of the workers that would do runs now; None when there is no pool."""
    from prefect.exceptions import ObjectNotFound

    with prefect_client(api) as client:
        try:
            client.read_work_pool(
                WORK_POOL
            )  # the question for workers has no such error of its own
            found = client.read_workers_for_work_pool(WORK_POOL)
        except ObjectNotFound:
            return None
    names = (worker.name for worker in found if worker.status == "ONLINE")
    return tuple(name for name in names if not name.endswith(f"-{UPKEEP_QUEUE}"))


def missing_worker_warning(api: str) -> str | None:
    """One line for a person when nobody would do what is started by a deployment; else None."""
    match online_workers(api):
        case None:
            return f"no work pool {WORK_POOL!r} on {api}: `harness up` makes it"
        case ():
            return f"no worker is online in the work pool {WORK_POOL!r}: `harness up` starts one"
        case _:
            return None


def start_deployment(api: str, name: str, parameters: Mapping[str, object]) -> str:
    """Start a run of the deployment of this name; the id of its flow run.

    Raises:
        OptionInvalid: no such deployment, or its form refuses a value.
        PrefectUnavailable: the server does not answer.
    """
    from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

    with prefect_client(api) as client:
        try:
            found = client.read_deployment_by_name(f"{name}/{name}")
            run = client.create_flow_run_from_deployment(found.id, parameters=dict(parameters))
        except ObjectNotFound as error:
            raise OptionInvalid(f"no deployment {name!r} on {api}") from error
        except PrefectHTTPStatusError as error:
            why = " ".join(error.response.text.split())[:500]
            raise OptionInvalid(f"deployment {name!r} refuses this: {why}") from error
    return str(run.id)


def deployment_names() -> tuple[str, ...]:
    """The names in `prefect.yaml`, in its order."""
    return deployments.names(_file())


def _file() -> Path:
    """In an installed Harness it lies beside this file, in a checkout at the top."""
    return next(
        path for path in (_FLOWS / "prefect.yaml", _FLOWS.parent / "prefect.yaml") if path.is_file()
    )


def _digest() -> str:
    files = [_file(), *sorted(_FLOWS.rglob("*.py")), *sorted(_BLUEPRINTS.glob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _known(api: str) -> set[str]:
    with prefect_client(api) as client:
        return {deployment.name for deployment in client.read_deployments()}


def _whose(api: str, settings: Settings) -> str:
    """Which server it is; ours may answer at another port each time."""
    ours = prefect_server.status(settings)
    return "ours" if ours is not None and ours.url == api else api


def _make_pool(api: str) -> None:
    """Make the pool, in which a run is one process; a command that people gave it stays."""
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectAlreadyExists
    from prefect.workers.process import ProcessWorker

    with prefect_client(api) as client:
        with suppress(ObjectAlreadyExists):
            client.create_work_pool(WorkPoolCreate(name=WORK_POOL, type="process"))
        there = client.read_work_pool(WORK_POOL)
        if there.type != "process":
            return
        template = there.base_job_template or ProcessWorker.get_default_base_job_template()
        command = template["variables"]["properties"]["command"]
        if command["default"] is None:
            command["default"] = JOB_COMMAND
            client.update_work_pool(WORK_POOL, WorkPoolUpdate(base_job_template=template))
