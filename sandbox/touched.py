"""Whether files were touched since a moment: cheaper than one more snapshot of the same."""

from threading import Lock

from contracts.sandbox import Command, Sandbox

TIMEOUT_S = 10.0
"""Looking longer than this costs more than a snapshot would."""

_WRITABLE = ("find", "/", "-xdev", "-type", "d", "-writable", "-prune", "-print0")


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
