"""The files of one sandbox, kept as an image whenever something in them has changed."""

from time import monotonic, sleep, time

from contracts.sandbox import PersistentSandbox, SnapshotId

_TICK_S = 0.02
"""More than the kernel's clock for change times takes to move on."""

_FREE_S = 3.0
_SHARE = 0.1
"""Keeping files while an agent is in the middle takes no more of its time than this, after the
first `_FREE_S` seconds of it."""


class SnapshotTracker:
    """Follows a sandbox whose files are as `kept` has them; None: as they were put in."""

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
        """Whether keeping them took so much of the time that it had better wait."""
        return self._took_s > _FREE_S + _SHARE * (monotonic() - self._began)

    def keep(self, *, shared: bool = False) -> SnapshotId | None:
        """The image that has the files as they are now, made if need be.

        With `shared` somebody else may be changing them, also while this looks.

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
        """Whether any of them may have changed since they were kept."""
        set_back = time() - monotonic() < self._drift - _TICK_S / 2
        return set_back or self._sandbox.changed_since(self._clean_at)

    def soil(self) -> None:
        """What was kept last is of no use: keep them anew, whether they change or not."""
        self._clean_at = 0.0

    def _clean(self, moment: float) -> None:
        """Whatever changes from now on does so later than this."""
        self._clean_at = moment - _TICK_S / 2
        self._drift = time() - monotonic()
