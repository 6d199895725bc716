"""Warm sandboxes: started ahead, each taken once by whichever process comes first.

One that waits has a running supervisor and nobody on its stream. It is claimed by renaming
it, which the engine does for one caller only; then its stream is taken, and ends it when
its taker dies. Nothing is ever given back.
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
"""A warm sandbox that nobody took ends by itself after this long."""
REFILL_S = 1.0
POOL_RUN = "pool"
"""The run id of containers that were started before their run."""


class PooledContainer(NamedTuple):
    """One container of the pool."""

    id: str
    taken: bool
    stale: bool
    """Whether its image was built anew since: no run gets it."""


class SandboxPool:
    """Keeps `size` sandboxes of one kind ready, as long as its process lives.

    What it keeps bears the label of this process: when that dies, the reaper takes it.
    """

    def __init__(self, engine: DockerEngine, spec: SandboxSpec, *, size: int) -> None:
        self._engine = engine
        self._spec = spec.model_copy(update={"run_id": POOL_RUN})
        self._size = size

    def fill(self) -> int:
        """Remove what has become stale and start what is missing; how many that were.

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
        """Fill again and again until `stop` is set, then remove what nobody took.

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
        """Remove what nobody took; taken ones go on."""
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
    """A warm sandbox of this kind for this process alone; None when there is none.

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
    """Whether the container is now the caller's: the engine gives a new name only once."""
    return not warm.taken and engine.rename(warm.id, taken_name(warm.id))


def _kind(spec: SandboxSpec) -> str:
    """The same for all sandboxes that can stand in for each other, supervisor and all."""
    flags = create_flags(spec, idle_s=IDLE_S) | {"labels": {}, "work_dir": spec.work_dir}
    return hashlib.sha256(json.dumps(flags, sort_keys=True).encode()).hexdigest()[:16]
