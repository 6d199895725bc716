"""Snapshots: the files of a sandbox kept as an image, and whether they changed since."""

import threading
import time
from collections.abc import Mapping
from threading import Lock

from contracts.sandbox import Command, Sandbox, SnapshotId
from sandbox.engine import DockerEngine
from sandbox.spec import CREATOR_LABEL, DEADLINE_LABEL, RUN_ID_LABEL

MAX_LAYERS = 64
"""Docker takes about 125 layers; a snapshot that has more is rewritten as one layer."""
NO_RUN = "-"
"""Run id in the labels of a snapshot that belongs to no run."""
TIMEOUT_S = 10.0
"""Seconds after which looking for changes costs more than a snapshot."""
_WRITABLE = ("find", "/", "-xdev", "-type", "d", "-writable", "-prune", "-print0")


class SnapshotStore:
    """The snapshots of one sandbox and its forks; removed when the last of these is torn down."""

    def __init__(self, engine: DockerEngine, *, max_layers: int = MAX_LAYERS) -> None:
        self._engine = engine
        self._max_layers = max_layers
        self._lock = threading.Lock()
        self._users = 0
        self._images: list[SnapshotId] = []

    def acquire(self) -> None:
        """Count one more sandbox that may use these snapshots."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """Count one sandbox less; after the last, remove the snapshots.

        Newest first: a snapshot may build on an older one.
        """
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

    def checkpoint(
        self, container: str, labels: Mapping[str, str], ttl_s: float, *, name: str = ""
    ) -> SnapshotId:
        """Snapshot the container for another process; it is removed when `ttl_s` is over.

        With a name it belongs to no run, and the image gets this name.

        Raises:
            SandboxLost: the container is gone.
        """
        # Without a creator only the deadline counts: the process may end long before.
        lasting = {**labels, CREATOR_LABEL: "", DEADLINE_LABEL: str(int(time.time() + ttl_s))}
        if name:
            lasting[RUN_ID_LABEL] = NO_RUN
        image = self._flat(self._engine.commit(container, lasting), lasting, labels)
        if name:
            self._engine.tag(image, name)
        return image

    def _flat(self, image: str, labels: Mapping[str, str], ours: Mapping[str, str]) -> SnapshotId:
        if self._engine.layers(image) <= self._max_layers:
            return SnapshotId(image)
        try:
            return SnapshotId(self._engine.flatten(image, labels, ours))
        finally:
            self._engine.remove_image(image)


class ChangeDetector:
    """Finds changes in the folders where the commands of one sandbox can write.

    The first call lists these folders, which takes a tenth of a second; a thread can do it ahead.
    """

    def __init__(self) -> None:
        self._places: tuple[str, ...] = ()
        self._finding = Lock()

    def since(self, moment: float, sandbox: Sandbox) -> bool:
        """Return False only if no file has a later change time, which no command can set back.

        Raises:
            SandboxLost: the sandbox is gone.
        """
        with self._finding:
            self._places = self._places or _writable(sandbox)
        # ctime, because any command can set mtime back.
        newer = ("-newerct", f"@{moment:.3f}", "-print", "-quit")
        looked = sandbox.exec(
            Command(argv=("find", *self._places, "-xdev", *newer), timeout_s=TIMEOUT_S)
        )
        # If find may not read a folder, its owner changed its mode, which is a change itself.
        reliable = looked.launch_error is None and not looked.timed_out and bool(self._places)
        return not reliable or bool(looked.stdout)


def sandbox_time(sandbox: Sandbox) -> float:
    """Return the time of the clock that sets change times; 0.0 if it cannot be read.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    result = sandbox.exec(Command(argv=("date", "+%s.%N"), timeout_s=TIMEOUT_S))
    try:
        return float(result.stdout)
    except ValueError:
        return 0.0


def _writable(sandbox: Sandbox) -> tuple[str, ...]:
    found = sandbox.exec(Command(argv=_WRITABLE, timeout_s=TIMEOUT_S))
    places = found.stdout.decode("utf-8", "surrogateescape").split("\0")
    return tuple(place for place in places if place)
