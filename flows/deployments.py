"""What `prefect.yaml` lists, made on a server by Prefect's own deployments.

`prefect deploy --all` makes the same, in a process of its own that takes five times as long.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from contracts.errors import PrefectUnavailable
from flows.server import speaking_to

if TYPE_CHECKING:
    from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class _PullSteps:
    """What each run does before it begins, in the form that Prefect asks of a storage."""

    steps: Sequence[Entry]
    destination: Path = Path()
    pull_interval: None = None

    def set_base_path(self, path: Path) -> None:
        """Nothing is copied."""

    async def pull_code(self) -> None:
        """Each run does its steps itself."""

    def to_pull_step(self) -> list[dict[str, Any]]:
        return [dict(step) for step in self.steps]


def listed(file: Path) -> tuple[Entry, ...]:
    """The deployments of a `prefect.yaml`, in its order."""
    import yaml

    return tuple(yaml.safe_load(file.read_text())["deployments"])


def make(api: str, file: Path) -> None:
    """Make all deployments of the file, or bring them up to date.

    Raises:
        PrefectUnavailable: the server does not answer or refuses one of them.
    """
    import yaml
    from prefect.utilities.templating import apply_values

    pull = apply_values(yaml.safe_load(file.read_text())["pull"], {}, remove_notset=False)
    with speaking_to(api), _told(api):
        for entry in listed(file):
            _make(entry, _PullSteps(cast("Sequence[Entry]", pull)))


def _make(entry: Entry, storage: _PullSteps) -> None:
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, VersionInfo
    from prefect.deployments.runner import RunnerDeployment

    limit = entry.get("concurrency_limit")
    made = RunnerDeployment.from_entrypoint(
        entry["entrypoint"],
        entry["name"],
        work_pool_name=entry["work_pool"]["name"],
        work_queue_name=entry["work_pool"].get("work_queue_name"),
        concurrency_limit=limit and ConcurrencyLimitConfig(**limit),
    )
    made.storage = storage
    # Else Prefect takes it from whatever git repository a person is in.
    version = VersionInfo(type="prefect:simple", version=made.version or "")
    made.apply([_schedule(one) for one in entry.get("schedules", ())], version_info=version)


def _schedule(said: Entry) -> "dict[str, CronSchedule | IntervalSchedule]":
    from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule

    if "cron" in said:
        return {"schedule": CronSchedule(cron=said["cron"])}
    return {"schedule": IntervalSchedule(interval=timedelta(seconds=said["interval"]))}


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
