"""Opens the sandbox of a run, fresh or from a snapshot, logs its network access, and removes
snapshots."""

import json
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from contracts.errors import ImageUnavailable, RunNotResumable, Unavailable
from contracts.sandbox import SnapshotId
from flows.config.settings import Settings
from flows.execution.dependencies import OpenedSandbox
from flows.execution.egress import open_way_out
from flows.execution.installs import Start
from flows.execution.toolchain import image_recipe
from flows.runs.home import home_owner
from flows.runs.request import ResolvedRequest
from nodes.projects.manifests import install_inputs
from sandbox.container import DockerSandbox
from sandbox.egress import EgressEvent, OnEvent
from sandbox.engine import DockerEngine
from sandbox.environments import EnvironmentStore, environment_key
from sandbox.images import BASE_RECIPE, ImageRecipe, ensure_image
from sandbox.reap import reap, remove_checkpoints
from sandbox.repos import BaseCommit
from sandbox.spec import SandboxSpec

MAX_NOTICES = 20
MAX_EVENTS = 10_000
"""Decisions that are logged. The last line says that more were made."""


def run_sandboxes(
    settings: Settings, engine: Callable[[], DockerEngine]
) -> Callable[
    [ResolvedRequest, str, OnEvent, SnapshotId | None], AbstractContextManager[OpenedSandbox]
]:
    """Return a function that opens the sandbox of a run, fresh or from a snapshot."""
    wanted = settings.sandbox

    @contextmanager
    def open_sandbox(
        request: ResolvedRequest, run_id: str, on_event: OnEvent, files: SnapshotId | None
    ) -> Iterator[OpenedSandbox]:
        docker = engine()
        if files is None:
            spec = sandbox_spec(settings, docker, run_id, image_recipe(request))
        else:
            try:
                docker.layers(files)
            except ImageUnavailable as error:
                raise RunNotResumable(
                    f"run {run_id} cannot be resumed: its snapshot {files!r} is gone from the "
                    "Docker engine; `harness run` starts another"
                ) from error
            spec = _spec(settings, run_id, files)
        with (
            _sweeping(docker, spec.owner),
            DockerSandbox.start(docker, spec) as sandbox,
            open_way_out(
                sandbox,
                wanted,
                request.definition.egress,
                is_closed=not request.way_out,
                on_event=on_event,
            ) as env,
        ):
            yield OpenedSandbox(sandbox, env)

    return open_sandbox


def sandbox_spec(
    settings: Settings, docker: DockerEngine, run_id: str, recipe: ImageRecipe = BASE_RECIPE
) -> SandboxSpec:
    """Return the specification of a run's sandbox from this image, unless the settings name one.

    Raises:
        ImageUnavailable, DockerUnavailable.
    """
    return _spec(settings, run_id, sandbox_image(settings, docker, recipe))


def sandbox_image(settings: Settings, docker: DockerEngine, recipe: ImageRecipe) -> str:
    """Return the image that sandboxes start from; it is built if it is missing.

    Raises:
        ImageUnavailable, DockerUnavailable.
    """
    return settings.sandbox.image or ensure_image(docker, recipe, on_line=lambda _: None)


def environment_finder(
    settings: Settings, store: EnvironmentStore, engine: Callable[[], DockerEngine]
) -> Callable[[ResolvedRequest, BaseCommit], Start | None]:
    """Return a function that finds what a run's sandbox starts from; None if nothing is kept."""

    def find(request: ResolvedRequest, base: BaseCommit) -> Start | None:
        if not settings.sandbox.environments_mb:
            return None
        docker = engine()
        image = docker.image(sandbox_image(settings, docker, image_recipe(request))).id
        install, env = request.options.get("install", ""), settings.sandbox.env
        decisive = (image, install, json.dumps(env, sort_keys=True))
        key = environment_key(base, install_inputs, *decisive)
        return Start(key, image, store.find(key, base))

    return find


def _spec(settings: Settings, run_id: str, image: str) -> SandboxSpec:
    return SandboxSpec(
        image=image,
        owner=home_owner(settings.home),
        run_id=run_id,
        ttl_s=settings.sandbox.ttl_s,
        limits=settings.sandbox.limits,
        runtime=settings.sandbox.runtime,
    )


@contextmanager
def _sweeping(docker: DockerEngine, ours: str) -> Iterator[None]:
    """Remove leftovers of dead runs in the background: listing many images takes the engine
    seconds."""

    def sweep() -> None:
        with suppress(Unavailable):  # `harness sandbox reap` reports what cannot be removed
            reap(docker, ours)

    with ThreadPoolExecutor(1, thread_name_prefix="sweep") as thread:
        swept = thread.submit(sweep)
        yield
    swept.result()


def snapshot_remover(
    settings: Settings, engine: Callable[[], DockerEngine]
) -> Callable[[str, Collection[SnapshotId]], None]:
    """Return a function that removes a run's snapshots except those it is given."""

    def forget(run_id: str, but: Collection[SnapshotId]) -> None:
        # A snapshot that cannot be removed now is reaped at its deadline.
        with suppress(Unavailable):
            remove_checkpoints(engine(), home_owner(settings.home), run_id, keep=but)

    return forget


class EgressLog:
    """Appends each decision to `egress.jsonl`; refused hosts become notices in the report."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._refused: dict[str, str] = {}
        self._count = 0

    def __call__(self, event: EgressEvent) -> None:
        self._count += 1
        if self._count > MAX_EVENTS:
            return
        with self._path.open("a") as file:
            last = {"more": "not written"} if self._count == MAX_EVENTS else {}
            file.write(json.dumps(asdict(event) | last) + "\n")
        if event.kind == "refused":
            self._refused[f"{event.host}:{event.port}"] = event.reason

    @property
    def notices(self) -> tuple[str, ...]:
        """One line for each of the first twenty refused hosts."""
        refused = list(self._refused.items())[:MAX_NOTICES]
        return tuple(f"no network access to {place}: {reason}" for place, reason in refused)
