"""Sandboxes started ahead of time, each for one run.

A waiting container has a running supervisor and no client on its stream. A process claims it by
renaming it, which Docker does for one caller only, then attaches to the stream, so that the
container ends when that process dies. No container is ever given back.
"""

import hashlib
import json
import threading

from contracts.errors import SandboxLost
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine, RunningContainer
from sandbox.spec import (
    OWNER_LABEL,
    POOL_LABEL,
    SandboxSpec,
    container_labels,
    create_flags,
    taken_name,
)

IDLE_S = 1800.0
"""Seconds after which a waiting sandbox ends by itself."""
REFILL_S = 1.0
POOL_RUN = "pool"
"""Run id in the labels of containers that were started before their run."""


class SandboxPool:
    """Keeps `size` sandboxes of one kind ready, as long as its process lives.

    Waiting containers have the label of this process: when it dies, the reaper removes them.
    """

    def __init__(self, engine: DockerEngine, spec: SandboxSpec, *, size: int) -> None:
        self._engine = engine
        self._spec = spec.model_copy(update={"run_id": POOL_RUN})
        self._size = size

    def fill(self) -> int:
        """Remove stale containers, start missing ones, and return how many were started.

        Raises:
            DockerUnavailable, ImageUnavailable, SandboxLost.
        """
        waiting = _waiting(self._engine, self._spec)
        stale = [one for one in waiting if one.image != self._spec.image]
        self._remove(stale)
        missing = max(0, self._size - len(waiting) + len(stale))
        for _ in range(missing):
            self._add()
        return missing

    def keep_filled(self, stop: threading.Event, every_s: float = REFILL_S) -> None:
        """Fill the pool repeatedly until `stop` is set, then remove the waiting containers.

        Raises:
            DockerUnavailable, ImageUnavailable, SandboxLost.
        """
        try:
            self.fill()
            while not stop.wait(every_s):
                self.fill()
        finally:
            self.close()

    def close(self) -> None:
        """Remove the waiting containers; those taken by runs stay."""
        self._remove(_waiting(self._engine, self._spec))

    def _remove(self, containers: list[RunningContainer]) -> None:
        for one in containers:
            if _claim(self._engine, one):
                self._engine.remove(one.id)

    def _add(self) -> None:
        kind = {POOL_LABEL: _kind(self._spec)}
        flags = create_flags(self._spec, idle_s=IDLE_S)
        container = self._engine.create(
            flags | {"labels": container_labels(self._spec, IDLE_S) | kind}
        )
        try:
            self._engine.start(container)
        except BaseException:
            self._engine.remove(container)
            raise


def take_from_pool(engine: DockerEngine, spec: SandboxSpec) -> DockerSandbox | None:
    """Return a waiting sandbox of this kind for this process, or None.

    Raises:
        DockerUnavailable: no engine answers.
    """
    for one in _waiting(engine, spec):
        # The image may have been rebuilt since the container was started.
        if one.image == spec.image and _claim(engine, one):
            try:
                return DockerSandbox.adopt(engine, spec, one.id)
            except SandboxLost:
                continue
    return None


def _waiting(engine: DockerEngine, spec: SandboxSpec) -> list[RunningContainer]:
    """Return the containers of this kind that no run has taken."""
    found = engine.running({OWNER_LABEL: spec.owner, POOL_LABEL: _kind(spec)})
    return [one for one in found if one.name != taken_name(one.id)]


def _claim(engine: DockerEngine, container: RunningContainer) -> bool:
    """Return whether the caller got the container: only one rename succeeds."""
    return engine.rename(container.id, taken_name(container.id))


def _kind(spec: SandboxSpec) -> str:
    """Return a digest that interchangeable sandboxes share; it covers the supervisor's code."""
    # Labels hold process and time, which differ; the flags hold the supervisor's program.
    flags = create_flags(spec, idle_s=IDLE_S) | {"labels": {}, "work_dir": spec.work_dir}
    return hashlib.sha256(json.dumps(flags, sort_keys=True).encode()).hexdigest()[:16]
