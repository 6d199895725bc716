"""Takes snapshots of one sandbox when its files have changed."""

from time import monotonic, sleep, time

from contracts.sandbox import PersistentSandbox, SnapshotId

_TICK_S = 0.02
"""Longer than one tick of the kernel clock that sets change times."""

_FREE_S = 3.0
_SHARE = 0.1
"""Largest share of an agent's time that snapshots in the middle of its work may take, after the
first `_FREE_S` seconds."""


class SnapshotTracker:
    """Tracks a sandbox whose files match the snapshot `kept`; None: they are as cloned."""

    def __init__(self, sandbox: PersistentSandbox, kept: SnapshotId | None, ttl_s: float) -> None:
        sleep(_TICK_S)
        self.kept = kept
        self._sandbox = sandbox
        self._ttl_s = ttl_s
        self._began = monotonic()
        self._took_s = 0.0
        self._clean_at = 0.0
        self._drift = 0.0
        self._clean(sandbox.now())

    @property
    def dear(self) -> bool:
        """True if snapshots have taken so much of the time that the next one should wait."""
        return self._took_s > _FREE_S + _SHARE * (monotonic() - self._began)

    def keep(self, *, shared: bool = False) -> SnapshotId | None:
        """Return a snapshot of the current files; take a new one only if they have changed.

        `shared`: other nodes may change the files at the same time.

        Raises:
            SandboxLost: the sandbox is gone.
        """
        if self.touched():
            began, before = monotonic(), self._sandbox.now() if shared else 0.0
            self.kept = self._sandbox.checkpoint(self._ttl_s)
            self._clean(before if shared else self._sandbox.now())
            self._took_s += monotonic() - began
        return self.kept

    def touched(self) -> bool:
        """Return True if a file may have changed since the last snapshot."""
        set_back = time() - monotonic() < self._drift - _TICK_S / 2
        return set_back or self._sandbox.changed_since(self._clean_at)

    def soil(self) -> None:
        """Discard the last snapshot: take a new one next time even if no file changes."""
        self._clean_at = 0.0

    def _clean(self, moment: float) -> None:
        """Wait until the clock has moved, so that later changes get a later time."""
        self._clean_at = moment - _TICK_S / 2
        self._drift = time() - monotonic()
