"""Snapshots: a sandbox's files kept as an image."""

import threading
import time
from collections.abc import Mapping

from contracts.sandbox import SnapshotId
from sandbox.engine import DockerEngine
from sandbox.spec import CREATOR_LABEL, DEADLINE_LABEL

MAX_LAYERS = 64
"""An engine takes about 125; a snapshot that has more is put down anew as one layer."""


class SnapshotStore:
    """The snapshots of one sandbox and its forks; the last of them to close clears it."""

    def __init__(self, engine: DockerEngine, *, max_layers: int = MAX_LAYERS) -> None:
        self._engine = engine
        self._max_layers = max_layers
        self._lock = threading.Lock()
        self._users = 0
        self._images: list[SnapshotId] = []

    def acquire(self) -> None:
        """Say that one more sandbox may need what is here."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """Say that a sandbox has gone; newest first, as a snapshot may stand on an older one."""
        with self._lock:
            self._users -= 1
            while self._users == 0 and self._images:
                self._engine.remove_image(self._images[-1])
                self._images.pop()

    def snapshot(self, container: str, labels: Mapping[str, str]) -> SnapshotId:
        """Snapshot the container.

        Raises:
            SandboxLost: the container is gone.
        """
        image = self._flat(self._engine.commit(container, labels), labels, labels)
        with self._lock:
            self._images.append(image)
        return image

    def checkpoint(self, container: str, labels: Mapping[str, str], ttl_s: float) -> SnapshotId:
        """Snapshot the container for whoever goes on after us: nothing but its time ends it.

        Raises:
            SandboxLost: the container is gone.
        """
        lasting = {**labels, CREATOR_LABEL: "", DEADLINE_LABEL: str(int(time.time() + ttl_s))}
        return self._flat(self._engine.commit(container, lasting), lasting, labels)

    def _flat(self, image: str, labels: Mapping[str, str], ours: Mapping[str, str]) -> SnapshotId:
        if self._engine.layers(image) <= self._max_layers:
            return SnapshotId(image)
        try:
            return SnapshotId(self._engine.flatten(image, labels, ours))
        finally:
            self._engine.remove_image(image)
