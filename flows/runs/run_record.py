"""`run.json`: the request of a run, and the process that executes it.

Locks show whether that process is still there. The kernel releases them when a process ends.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, ValidationError, model_validator

from blueprints.find import find_blueprint
from blueprints.types import Blueprint
from contracts.errors import HarnessError, RunDamaged, RunNotResumable
from flows.runs.home import LOCK, RECORD, REPORT, TURN, write_in_home
from flows.runs.request import FlowRun, ResolvedRequest, RunRequest
from sandbox.process_label import process_label


class RunRecord(RunRequest):
    """A run's resolved request, and the process that executes it.

    `name` and `nodes` are the blueprint's; `cwd` is the directory where the run was started.
    `process` executes the run or was the last to do so. A run whose flow run `suspends` waits for a
    person without a process. A `queued` run has not started.
    """

    # Fields that a later version adds do not stop this one from listing the run.
    model_config = ConfigDict(extra="ignore")

    version: Literal[2] = 2
    run_id: str
    name: str
    started_at: str
    process: str
    flow_run_id: str | None = None
    suspends: bool = False
    queued: bool = False
    nodes: tuple[str, ...] = ()
    cwd: str = "/"

    @model_validator(mode="before")
    @classmethod
    def _upgrade(cls, data: Any) -> Any:
        """Read the first version: `blueprint` was the name only, and texts could be null."""
        if not isinstance(data, dict) or "name" in data:
            return data
        name = data.get("blueprint", "")
        known = {key: value for key, value in data.items() if value is not None}
        return {**known, "name": name, "blueprint": data.get("blueprint_ref") or name}


def write_record(
    folder: Path,
    run_id: str,
    request: ResolvedRequest,
    flow_run: FlowRun | None,
    *,
    queued: bool = False,
) -> Path:
    """Write the record into the run's folder, which is created, and return the folder.

    A resumed run keeps the start time and the directory of its first record.
    """
    own = folder / run_id
    own.mkdir(parents=True, exist_ok=True)
    known = read_record(own)
    record = RunRecord(
        **request.model_dump(),
        run_id=run_id,
        name=request.definition.name,
        nodes=tuple(request.definition.all_names()),
        flow_run_id=flow_run.id if flow_run else None,
        suspends=flow_run is not None and flow_run.suspends,
        queued=queued,
        started_at=known.started_at if known else datetime.now(UTC).isoformat(timespec="seconds"),
        process=process_label(os.getpid()),
        cwd=known.cwd if known else str(Path.cwd()),
    )
    write_in_home(own / RECORD, record.model_dump_json(indent=2), run_id=run_id)
    (own / REPORT).unlink(missing_ok=True)
    return own


def read_record(own: Path) -> RunRecord | None:
    """Read the record in a run's folder; None if there is none.

    Raises:
        RunDamaged: the file cannot be read.
    """
    path = own / RECORD
    try:
        return RunRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise RunDamaged(
            f"run {own.name} is damaged: {path} is not what Harness wrote. Remove {own}, or put "
            "back a copy of it"
        ) from error


def check_run_id(own: Path, flow_run_id: str) -> None:
    """Refuse a flow run whose run id (the end of its own id) belongs to another flow run.

    Raises:
        RunNotResumable: names the other run.
    """
    record = read_record(own)
    if record is not None and record.flow_run_id != flow_run_id:
        raise RunNotResumable(
            f"run id {own.name} is taken, by a run of {record.name!r} begun at "
            f"{record.started_at} whose flow run {record.flow_run_id} ends in the same digits. "
            "Nothing was done: start it again as a new flow run, which has another id"
        )


def recorded_request(record: RunRecord) -> ResolvedRequest:
    """Return the recorded request, with its blueprint loaded again.

    Changes to the directory in which the run was started: the request may name paths in it.

    Raises:
        RunNotResumable: the blueprint or the directory is gone or has changed.
    """
    try:
        os.chdir(record.cwd)
        blueprint = find_blueprint(record.blueprint, repo=record.repo)
    except (OSError, HarnessError) as error:
        raise RunNotResumable(f"run {record.run_id} cannot be resumed: {error}") from error
    check_same_nodes(record, blueprint)
    return request_for(record, blueprint)


def request_for(record: RunRecord, blueprint: Blueprint) -> ResolvedRequest:
    """Return the recorded request with this blueprint."""
    given = {name: getattr(record, name) for name in RunRequest.model_fields}
    return ResolvedRequest(definition=blueprint, **given)


def check_same_nodes(record: RunRecord, blueprint: Blueprint) -> None:
    """Check that the blueprint has the recorded nodes: checkpoints store results by node name.

    Raises:
        RunNotResumable: names the nodes.
    """
    now = tuple(blueprint.all_names())
    if now != record.nodes:
        raise RunNotResumable(
            f"run {record.run_id} cannot be resumed: blueprint {record.blueprint!r} has changed. "
            f"Its nodes were {', '.join(record.nodes)} and are {', '.join(now)}"
        )


@contextmanager
def run_lock(folder: Path, run_id: str) -> Iterator[None]:
    """Hold the lock of a run until the block or this process ends.

    Raises:
        RunNotResumable: another process holds the lock.
    """
    own = folder / run_id
    own.mkdir(parents=True, exist_ok=True)
    with (own / LOCK).open("w") as lock:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError as error:
            raise RunNotResumable(f"run {run_id} is running: another process does it") from error
        yield


@contextmanager
def queue_lock(own: Path) -> Iterator[None]:
    """Show that this process waits to execute the run, until the block or the process ends."""
    with file_lock(own / TURN):
        yield


def is_abandoned(own: Path) -> bool:
    """Return True if no process executes the run or waits for it, also after a reboot.

    Return False if the lock file cannot be examined.
    """
    return not any(is_locked(own / name) for name in (LOCK, TURN))


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold a shared lock on a file until the block or this process ends."""
    path.touch()
    with path.open("r+") as file:  # NFS: a shared lock needs a file opened for reading
        flock(file, LOCK_SH)
        yield


def is_locked(path: Path) -> bool:
    """Return True if a process, here or on another host, holds a lock on this file."""
    try:
        with path.open("r+") as lock:  # NFS: a lock needs a file opened for writing
            flock(lock, LOCK_EX | LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def record_queued(runs: Path, run_id: str, request: ResolvedRequest, flow_run: FlowRun) -> None:
    """Record that this process will execute the run once a slot is free.

    Raises:
        RunNotResumable: another process executes it, or its blueprint has other nodes now.
    """
    with run_lock(runs, run_id):
        known = read_record(runs / run_id)
        if known is not None:
            check_same_nodes(known, request.definition)
        write_record(runs, run_id, request, flow_run, queued=True)


@contextmanager
def waiting_in_queue(
    runs: Path, run_id: str, request: ResolvedRequest, flow_run: FlowRun
) -> Iterator[None]:
    """Record the run as queued, and hold its queue lock until the block ends.

    Raises:
        RunNotResumable: as `record_queued`.
    """
    record_queued(runs, run_id, request, flow_run)
    with queue_lock(runs / run_id):
        yield
