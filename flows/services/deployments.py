"""What `prefect.yaml` lists, made on a server by Prefect's own deployments.

`prefect deploy --all` makes the same, in a process of its own that takes five times as long.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from pydantic import BaseModel

from contracts.errors import PrefectUnavailable
from flows.services.server import speaking_to

if TYPE_CHECKING:
    from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule


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


@dataclass(frozen=True)
class _PullSteps:
    """What each run does before it begins, in the form that Prefect asks of a storage."""

    steps: Steps
    destination: Path = Path()
    pull_interval: None = None

    def set_base_path(self, path: Path) -> None:
        """Nothing is copied."""

    async def pull_code(self) -> None:
        """Each run does its steps itself."""

    def to_pull_step(self) -> Steps:
        return self.steps


def names(file: Path) -> tuple[str, ...]:
    """The names of the deployments in a `prefect.yaml`, in its order."""
    return tuple(entry.name for entry in _read(file).deployments)


def make(api: str, file: Path) -> None:
    """Make all deployments of the file, or bring them up to date.

    Raises:
        PrefectUnavailable: the server does not answer or refuses one of them.
    """
    from prefect.context import SyncClientContext
    from prefect.utilities.templating import apply_values

    found = _read(file)
    filled = apply_values({"steps": found.pull}, {}, remove_notset=False)
    pull = _PullSteps(cast("dict[str, Steps]", filled)["steps"])  # NotSet is for a mere name
    with speaking_to(api), _told(api), SyncClientContext.get_or_create():  # else a client for each
        for entry in found.deployments:
            _make(entry, pull)


def _read(file: Path) -> _File:
    import yaml

    return _File.model_validate(yaml.safe_load(file.read_text()))


def _make(entry: _Entry, storage: _PullSteps) -> None:
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, VersionInfo
    from prefect.deployments.runner import RunnerDeployment

    limit = entry.concurrency_limit
    made = RunnerDeployment.from_entrypoint(
        entry.entrypoint,
        entry.name,
        work_pool_name=entry.work_pool.name,
        work_queue_name=entry.work_pool.work_queue_name,
        concurrency_limit=ConcurrencyLimitConfig(**limit.model_dump()) if limit else None,
    )
    made.storage = storage
    # Else Prefect takes it from whatever git repository a person is in.
    version = VersionInfo(type="prefect:simple", version=made.version or "")
    made.apply([{"schedule": one.made()} for one in entry.schedules], version_info=version)


@contextmanager
def _told(api: str) -> Iterator[None]:
    """Say what went wrong in one line."""
    from httpx import HTTPError
    from prefect.deployments.runner import DeploymentApplyError

    try:
        yield
    except (HTTPError, DeploymentApplyError) as error:
        why = " ".join(str(error).split())[-500:]
        raise PrefectUnavailable(f"the deployments cannot be made at {api}: {why}") from error
