"""Snapshots: a sandbox's files kept as an image."""

import threading
from collections.abc import Mapping

from contracts.sandbox import SnapshotId
from sandbox.engine import Engine


class Shelf:
    """The snapshots of one sandbox and its forks; the last of them to close clears it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._users = 0
        self._images: list[SnapshotId] = []

    def join(self) -> None:
        """Say that one more sandbox may need what is here."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """Say that a sandbox has gone; newest first, as a snapshot may stand on an older one."""
        with self._lock:
            self._users -= 1
            while self._users == 0 and self._images:
                self._engine.remove_image(self._images[-1])
                self._images.pop()

    def keep(self, container: str, labels: Mapping[str, str]) -> SnapshotId:
        """Snapshot the container.

        Raises:
            SandboxLost: the container is gone.
        """
        image = SnapshotId(self._engine.commit(container, labels))
        with self._lock:
            self._images.append(image)
        return image
