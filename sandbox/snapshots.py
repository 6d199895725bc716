"""Snapshots: the files of a sandbox kept as an image, and whether they changed since."""

import threading
import time
from collections.abc import Mapping
from threading import Lock

from contracts.sandbox import Command, Sandbox, SnapshotId
from sandbox.engine import DockerEngine
from sandbox.spec import CREATOR_LABEL, DEADLINE_LABEL

MAX_LAYERS = 64
"""An engine takes about 125; a snapshot that has more is put down anew as one layer."""
TIMEOUT_S = 10.0
"""Looking longer than this costs more than a snapshot would."""
_WRITABLE = ("find", "/", "-xdev", "-type", "d", "-writable", "-prune", "-print0")


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


class ChangeDetector:
    """Looks at the places where the commands of one sandbox can write.

    The first look must find these places: a tenth of a second, which a thread may spend ahead.
    """

    def __init__(self) -> None:
        self._places: tuple[str, ...] = ()
        self._finding = Lock()

    def since(self, moment: float, sandbox: Sandbox) -> bool:
        """False only when nothing there has a later change time; it cannot be set back inside.

        Raises:
            SandboxLost: the sandbox is gone.
        """
        with self._finding:
            self._places = self._places or _writable(sandbox)
        newer = ("-newerct", f"@{moment:.3f}", "-print", "-quit")
        looked = sandbox.exec(
            Command(argv=("find", *self._places, "-xdev", *newer), timeout_s=TIMEOUT_S)
        )
        # What find may not read, its owner made so, which is a change to what holds it.
        told = looked.launch_error is None and not looked.timed_out and bool(self._places)
        return not told or bool(looked.stdout)


def sandbox_time(sandbox: Sandbox) -> float:
    """The time that change times go by there; 0.0 when nobody can tell.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    told = sandbox.exec(Command(argv=("date", "+%s.%N"), timeout_s=TIMEOUT_S))
    try:
        return float(told.stdout)
    except ValueError:
        return 0.0


def _writable(sandbox: Sandbox) -> tuple[str, ...]:
    found = sandbox.exec(Command(argv=_WRITABLE, timeout_s=TIMEOUT_S))
    places = found.stdout.decode("utf-8", "surrogateescape").split("\0")
    return tuple(place for place in places if place)
