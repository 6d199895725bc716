"""The folder of all runs: listing, searching and reading them, saving reports."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from contracts.errors import RunDamaged, RunNotFound, RunNotResumable
from contracts.run import RunReport
from flows.runs.home import CHECKPOINT, DIFF, KEPT, RECORD, REPORT, write_in_home
from flows.runs.report import dumps, loads
from flows.runs.request import ResolvedRequest
from flows.runs.run_record import (
    RunRecord,
    is_abandoned,
    read_record,
    recorded_request,
    run_lock,
)
from sandbox.process_label import has_exited
from sandbox.process_label import is_local as known_process
from sandbox.redaction import redact_url

_log = logging.getLogger(__name__)

State = Literal["success", "failure", "cancelled", "waiting", "queued", "running", "lost"]


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """One line of `harness runs list`.

    lost        its process died before it could write a report
    queued      it waits for a concurrency slot
    resumable   it stopped before its last node and can be resumed
    suspends    its flow run waits for a person and resumes by itself
    repo        address without password
    """

    run_id: str
    blueprint: str
    repo: str
    intent: str
    started_at: str
    state: State
    flow_run_id: str | None
    branch: str | None
    resumable: bool = False
    suspends: bool = False


def save_report(folder: Path, report: RunReport, diff: str) -> None:
    """Save the report and the whole diff."""
    write_in_home(folder / DIFF, diff, run_id=folder.name)
    write_in_home(folder / REPORT, dumps(report), run_id=folder.name)


def list_runs(folder: Path, *, limit: int) -> list[RunEntry]:
    """Return the newest runs, newest first."""
    return list(islice(search_runs(folder), limit))


def search_runs(folder: Path, *, about: str = "") -> Iterator[RunEntry]:
    """Yield the runs with `about` in their id, blueprint, repository or intent, newest first.

    Reads reports lazily. A damaged run is skipped and logged.
    """
    owns = (path.parent for path in folder.glob(f"*/{RECORD}"))
    records = [(known, own) for own in owns if (known := try_read_record(own)) is not None]
    records.sort(key=lambda pair: pair[0].started_at, reverse=True)
    return (_entry(own, known) for known, own in records if about.lower() in _words(known))


def try_read_record(own: Path) -> RunRecord | None:
    """Read the record of a run; None if it is missing, or damaged, which is logged."""
    try:
        return read_record(own)
    except RunDamaged as error:
        _log.warning("%s", error)
        return None


def count_runs(folder: Path) -> int:
    """Return the number of runs."""
    return sum(1 for _ in folder.glob(f"*/{RECORD}"))


def read_entry(folder: Path, run: str) -> RunEntry:
    """Return the state of one run, with or without a report, by its id or an unambiguous prefix.

    Raises:
        RunNotFound: no run or several runs have this prefix.
    """
    own = find_run(folder, run)
    return _entry(own, _asked(own))


def read_report(folder: Path, run: str) -> RunReport:
    """Read the report of a run, by its id or an unambiguous prefix.

    Raises:
        RunNotFound: no such run, several such runs, or no report yet.
    """
    own = find_run(folder, run)
    report = load_report(own)
    if report is None:
        entry = read_entry(folder, run)
        hint = f"; `harness runs resume {own.name}` goes on" if entry.resumable else ""
        raise RunNotFound(f"run {own.name} has no report: it is {entry.state}{hint}")
    return report


def load_report(own: Path) -> RunReport | None:
    """Read the report in a run's folder; None if there is none or it is damaged."""
    try:
        return loads((own / REPORT).read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        _log.warning("the report of run %s is damaged: %s", own.name, own / REPORT)
        return None


def is_known(folder: Path, run_id: str) -> bool:
    """Return True if the run has a record."""
    return (folder / run_id / RECORD).is_file()


def reported_at(folder: Path, run_id: str) -> int | None:
    """Return when the run's report was last written; None without a report."""
    path = folder / run_id / REPORT
    return path.stat().st_mtime_ns if path.is_file() else None


def runs_reported_since(folder: Path, at: datetime) -> list[str]:
    """Yield the runs whose report was written at this moment or later."""
    from_ns = at.timestamp() * 1e9
    names = [path.parent.name for path in folder.glob(f"*/{REPORT}")]
    return [name for name in names if (reported_at(folder, name) or 0) >= from_ns]


def finished_report(folder: Path, run_id: str) -> RunReport | None:
    """Return the report of a run whose nodes have all finished; None for any other run."""
    own = folder / run_id
    record = read_record(own)
    return None if record is None or _resumable(own, record) else load_report(own)


def waits_for_approval(folder: Path, run_id: str) -> bool:
    """Return True if the run has stopped until a person decides."""
    return is_known(folder, run_id) and read_entry(folder, run_id).state == "waiting"


def read_diff(folder: Path, run: str) -> str:
    """Return the whole diff of a run; empty if it changed nothing.

    Raises:
        RunNotFound: as `read_report`.
    """
    read_report(folder, run)
    patch = (
        find_run(folder, run) / DIFF
    ).read_bytes()  # bytes: reading text would turn CRLF into LF
    return patch.decode("utf-8", "surrogateescape")


def find_run(folder: Path, run: str) -> Path:
    """Return the folder of a run.

    Raises:
        RunNotFound: no run or several runs have this prefix.
    """
    found = list(_beginning_with(folder, run))
    if len(found) == 1:
        return found[0]
    if not found:
        raise RunNotFound(f"no run {run!r}: `harness runs list` names the known ones")
    raise RunNotFound(f"run {run!r} is one of {', '.join(p.name for p in found)}: say more of it")


def resolve_id(folder: Path, run: str) -> str:
    """Return the full id of the run with this prefix, or the prefix if no run here has it.

    The event log may hold runs of other machines, which have no folder here.

    Raises:
        RunNotFound: several runs have this prefix.
    """
    found = [own.name for own in _beginning_with(folder, run)]
    return run if run in found or not found else find_run(folder, run).name


def _beginning_with(folder: Path, run: str) -> Iterator[Path]:
    if run.isalnum():
        yield from sorted(path.parent for path in folder.glob(f"{run}*/{RECORD}"))


def _asked(own: Path) -> RunRecord:
    record = read_record(own)
    if record is None:
        raise RunNotFound(f"run {own.name} has gone while it was looked at")
    return record


def has_run_exited(own: Path, record: RunRecord) -> bool:
    """Return True if the process that executed the run is gone, also after a reboot."""
    return has_exited(record.process) if known_process(record.process) else is_abandoned(own)


def _words(record: RunRecord) -> str:
    shown = redact_url(record.repo)
    return f"{record.run_id} {record.name} {shown} {record.intent}".lower()


def _resumable(own: Path, record: RunRecord) -> bool:
    """Return True if a run without a process can be resumed; a queued run then starts."""
    return record.queued or (own / CHECKPOINT).is_file()


def _entry(own: Path, record: RunRecord) -> RunEntry:
    done = load_report(own)
    dead = done is None and has_run_exited(own, record)
    now: State = "lost" if dead else "queued" if record.queued else "running"
    return RunEntry(
        run_id=record.run_id,
        blueprint=record.name,
        repo=redact_url(record.repo),
        intent=record.intent,
        started_at=record.started_at,
        state=done.status if done else now,
        flow_run_id=record.flow_run_id,
        branch=done.branch if done else None,
        resumable=(done is not None or dead) and _resumable(own, record),
        suspends=record.suspends,
    )


class ResumableRun(NamedTuple):
    """A run that can be resumed. `flow_run_id` is the Prefect flow run that began it."""

    run_id: str
    request: ResolvedRequest
    flow_run_id: str | None


def find_resumable(folder: Path, run: str) -> ResumableRun:
    """Find a stopped run by its id or an unambiguous prefix.

    Changes to the directory in which the run was started: the request may name paths in it.

    Raises:
        RunNotFound: no such run, or several.
        RunNotResumable: it is running or finished, or its files are gone.
    """
    own = find_run(folder, run)
    with run_lock(folder, own.name):
        entry = read_entry(folder, own.name)
        goes_on = entry.resumable or (own / CHECKPOINT).is_file()
        if entry.state == "queued" or not goes_on:
            raise RunNotResumable(_why_not(own, entry.state))
    record = read_record(own)
    if record is None:
        raise RunNotResumable(f"run {own.name} has gone while it was looked at")
    return ResumableRun(own.name, recorded_request(record), record.flow_run_id)


def _why_not(own: Path, state: str) -> str:
    run_id = own.name
    if state == "queued":
        return f"run {run_id} is queued: it begins by itself when its turn comes"
    if state in ("running", "lost"):
        return f"run {run_id} is {state} and cannot be resumed: its files are gone"
    asked = ", and no comment on its pull request asks for more" if (own / KEPT).is_file() else ""
    return f"run {run_id} is finished ({state}){asked}: `harness run` starts another"
