"""Sandboxes started ahead of time, each for one run.

A waiting container has a running supervisor and no client on its stream. A process claims it by
renaming it, which Docker does for one caller only, then attaches to the stream, so that the
container ends when that process dies. No container is ever given back.
"""

import hashlib
import json
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from typing import NamedTuple

from contracts.errors import SandboxLost
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
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


class PooledContainer(NamedTuple):
    """One container of the pool."""

    id: str
    taken: bool
    stale: bool
    """Whether its image was rebuilt since; no run gets a stale container."""


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
        found = _found(self._engine, self._spec)
        self._remove(warm for warm in found if warm.stale)
        idle = [warm for warm in found if not warm.taken and not warm.stale]
        missing = max(0, self._size - len(idle))
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
        self._remove(_found(self._engine, self._spec))

    def _remove(self, those: Iterable[PooledContainer]) -> None:
        for warm in those:
            if _claim(self._engine, warm):
                self._engine.remove(warm.id)

    def _add(self) -> None:
        flags = create_flags(self._spec, idle_s=IDLE_S)
        kind = {POOL_LABEL: _kind(self._spec)}
        container = self._engine.create(
            flags | {"labels": container_labels(self._spec, IDLE_S) | kind}
        )
        with ExitStack() as undo:
            undo.callback(self._engine.remove, container)
            self._engine.start(container)
            undo.pop_all()


def take_from_pool(engine: DockerEngine, spec: SandboxSpec) -> DockerSandbox | None:
    """Return a waiting sandbox of this kind for this process, or None.

    Raises:
        DockerUnavailable: no engine answers.
    """
    for warm in _found(engine, spec):
        if not warm.stale and _claim(engine, warm):
            try:
                return DockerSandbox.adopt(engine, spec, warm.id)
            except SandboxLost:
                continue
    return None


def _found(engine: DockerEngine, spec: SandboxSpec) -> list[PooledContainer]:
    found = engine.running({OWNER_LABEL: spec.owner, POOL_LABEL: _kind(spec)})
    return [
        PooledContainer(
            id=one.id, taken=one.name == taken_name(one.id), stale=one.image != spec.image
        )
        for one in found
    ]


def _claim(engine: DockerEngine, warm: PooledContainer) -> bool:
    """Return whether the caller got the container: only one rename succeeds."""
    return not warm.taken and engine.rename(warm.id, taken_name(warm.id))


def _kind(spec: SandboxSpec) -> str:
    """Return a digest that interchangeable sandboxes share; it covers the supervisor's code."""
    flags = create_flags(spec, idle_s=IDLE_S) | {"labels": {}, "work_dir": spec.work_dir}
    return hashlib.sha256(json.dumps(flags, sort_keys=True).encode()).hexdigest()[:16]
