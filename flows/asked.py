"""What a run was asked, by which process it is done, and that only one does it."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from contracts.errors import RunDamaged, RunNotResumable
from flows.home import write_in_home
from flows.request import FlowRun, RunRequest
from sandbox.process import process_label

_FILE = "run.json"
_LOCK = "lock"
_TURN = "turn"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One run as it was asked for. `nodes` are the blueprint's, `cwd` is where it was begun.

    `process` tells which process does it, or did it last; `suspends` whether its flow run waits
    for a person by itself; `queued` that it has not begun, for it waits for its turn.
    """

    run_id: str
    blueprint: str
    repo: str
    intent: str
    started_at: str
    process: str
    flow_run_id: str | None = None
    suspends: bool = False
    queued: bool = False
    blueprint_ref: str = ""
    nodes: tuple[str, ...] = ()
    ref: str | None = None
    agent: str = "native"
    model: str = ""
    push: bool = False
    budget_usd: float | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    company: str | None = None
    intent_from: str = ""
    cwd: str = "/"


def begin(
    folder: Path,
    run_id: str,
    request: RunRequest,
    flow_run: FlowRun | None,
    *,
    queued: bool = False,
) -> Path:
    """Make the run's own folder and note there what was asked, by which process.

    A run that goes on is noted again, as begun when it was begun first.
    """
    own = folder / run_id
    own.mkdir(parents=True, exist_ok=True)
    known = read_asked(own)
    asked = Asked(
        run_id=run_id,
        blueprint=request.blueprint.name,
        blueprint_ref=request.blueprint_ref or request.blueprint.name,
        nodes=tuple(request.blueprint.all_names()),
        repo=request.repo,
        intent=request.intent,
        ref=request.ref,
        agent=request.agent,
        model=request.model,
        push=request.push,
        budget_usd=request.budget_usd,
        options=dict(request.options),
        user=request.user,
        company=request.company,
        intent_from=request.intent_from,
        flow_run_id=flow_run.id if flow_run else None,
        suspends=flow_run is not None and flow_run.suspends,
        queued=queued,
        started_at=known.started_at if known else datetime.now(UTC).isoformat(timespec="seconds"),
        process=process_label(os.getpid()),
        cwd=known.cwd if known else str(Path.cwd()),
    )
    write_in_home(own / _FILE, json.dumps(asdict(asked), indent=2), run_id=run_id)
    (own / "report.json").unlink(missing_ok=True)
    return own


def read_asked(own: Path) -> Asked | None:
    """What `begin` noted in a run's folder; None when it noted nothing.

    Raises:
        RunDamaged: it cannot be read.
    """
    path = own / _FILE
    try:
        return adapter().validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise RunDamaged(
            f"run {own.name} is damaged: {path} is not what Harness wrote. Remove {own}, or put "
            "back a copy of it"
        ) from error


def check_own(own: Path, flow_run_id: str) -> None:
    """Refuse a flow run whose run id, the end of its own, is another run's already.

    Raises:
        RunNotResumable: names that run.
    """
    asked = read_asked(own)
    if asked is not None and asked.flow_run_id != flow_run_id:
        raise RunNotResumable(
            f"run id {own.name} is taken, by a run of {asked.blueprint!r} begun at "
            f"{asked.started_at} whose flow run {asked.flow_run_id} ends in the same digits. "
            "Nothing was done: start it again as a new flow run, which has another id"
        )


@contextmanager
def held(folder: Path, run_id: str) -> Iterator[None]:
    """Keep every other process from doing this run, until the block or this process ends.

    Raises:
        RunNotResumable: another process is doing it.
    """
    own = folder / run_id
    own.mkdir(parents=True, exist_ok=True)
    with (own / _LOCK).open("w") as lock:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError as error:
            raise RunNotResumable(f"run {run_id} is running: another process does it") from error
        yield


@contextmanager
def waiting(own: Path) -> Iterator[None]:
    """Show that a process waits for its turn to do this run, until the block or it ends."""
    with marked(own / _TURN):
        yield


def is_left(own: Path) -> bool:
    """Whether no process does this run, nor waits for its turn to: also after a reboot.

    Where nobody can tell, one may.
    """
    return not any(is_marked(own / name) for name in (_LOCK, _TURN))


@contextmanager
def marked(path: Path) -> Iterator[None]:
    """Lock a file for others to see, who may do so too, until the block or this process ends."""
    path.touch()
    with path.open("r+") as file:  # NFS shares no lock on what is not open to be read
        flock(file, LOCK_SH)
        yield


def is_marked(path: Path) -> bool:
    """Whether a process holds a lock on this file, also one of elsewhere."""
    try:
        with path.open("r+") as lock:  # NFS locks nothing that is not open to be written
            flock(lock, LOCK_EX | LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


@cache
def adapter() -> TypeAdapter[Asked]:
    """To JSON and back; made once, which takes 20 ms."""
    return TypeAdapter(Asked)
