"""The folder of runs: what each was asked, its report, its diff, its trajectory."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Literal

from contracts.errors import RunDamaged, RunNotFound
from contracts.run import RunReport
from flows.runs.addresses import without_password
from flows.runs.home import write_in_home
from flows.runs.layout import ASKED, CHECKPOINT, DIFF, REPORT
from flows.runs.lock import is_abandoned
from flows.runs.report import dumps, loads
from flows.runs.run_record import RunRecord, read_record
from sandbox.process_label import has_exited
from sandbox.process_label import is_local as known_process

_log = logging.getLogger(__name__)

State = Literal["success", "failure", "cancelled", "waiting", "queued", "running", "lost"]


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """One line of `harness runs list`. `lost`: its process died before it could report.

    `queued`: it waits for its turn. `resumable`: it stopped before its nodes were done, and can
    go on. `suspends`: its flow run waits for a person, and goes on, by itself. `repo` shows no
    password.
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
    """Keep the report and the whole diff."""
    write_in_home(folder / DIFF, diff, run_id=folder.name)
    write_in_home(folder / REPORT, dumps(report), run_id=folder.name)


def list_runs(folder: Path, *, limit: int) -> list[RunEntry]:
    """The newest runs, newest first."""
    return list(islice(search_runs(folder), limit))


def search_runs(folder: Path, *, about: str = "") -> Iterator[RunEntry]:
    """Every run, newest first, that has `about` in its id, blueprint, repository or intent.

    A report is read only when its run's turn comes. One that is damaged is left out, and the log
    says so.
    """
    owns = (path.parent for path in folder.glob(f"*/{ASKED}"))
    asked = [(known, own) for own in owns if (known := try_read_record(own)) is not None]
    asked.sort(key=lambda pair: pair[0].started_at, reverse=True)
    return (_entry(own, known) for known, own in asked if about.lower() in _words(known))


def try_read_record(own: Path) -> RunRecord | None:
    """What was asked of the run; None when that is damaged, which the log tells, or gone."""
    try:
        return read_record(own)
    except RunDamaged as error:
        _log.warning("%s", error)
        return None


def count_runs(folder: Path) -> int:
    """How many runs there are."""
    return sum(1 for _ in folder.glob(f"*/{ASKED}"))


def read_entry(folder: Path, run: str) -> RunEntry:
    """What is known of one run, also before it reported.

    Raises:
        RunNotFound: none or several begin so.
    """
    own = find_run(folder, run)
    return _entry(own, _asked(own))


def read_report(folder: Path, run: str) -> RunReport:
    """The report of a run, by its id or the unambiguous beginning of it.

    Raises:
        RunNotFound: no such run, several such runs, or one that has not reported yet.
    """
    own = find_run(folder, run)
    report = load_report(own)
    if report is None:
        entry = read_entry(folder, run)
        hint = f"; `harness runs resume {own.name}` goes on" if entry.resumable else ""
        raise RunNotFound(f"run {own.name} has no report: it is {entry.state}{hint}")
    return report


def load_report(own: Path) -> RunReport | None:
    """A run's report, from its folder; None before the first, and of one that is damaged."""
    try:
        return loads((own / REPORT).read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        _log.warning("the report of run %s is damaged: %s", own.name, own / REPORT)
        return None


def is_known(folder: Path, run_id: str) -> bool:
    """Whether somebody noted this run."""
    return (folder / run_id / ASKED).is_file()


def reported_at(folder: Path, run_id: str) -> int | None:
    """When this run reported last, as the file system tells; None before its first report."""
    path = folder / run_id / REPORT
    return path.stat().st_mtime_ns if path.is_file() else None


def runs_reported_since(folder: Path, at: datetime) -> list[str]:
    """The runs whose report was written then or later, as the file system tells."""
    from_ns = at.timestamp() * 1e9
    names = [path.parent.name for path in folder.glob(f"*/{REPORT}")]
    return [name for name in names if (reported_at(folder, name) or 0) >= from_ns]


def finished_report(folder: Path, run_id: str) -> RunReport | None:
    """The report of a run whose nodes came to their end; None of every other run."""
    own = folder / run_id
    asked = read_record(own)
    return None if asked is None or _resumable(own, asked) else load_report(own)


def waits_for_approval(folder: Path, run_id: str) -> bool:
    """Whether this run ended for now, because a person has to decide."""
    return is_known(folder, run_id) and read_entry(folder, run_id).state == "waiting"


def read_diff(folder: Path, run: str) -> str:
    """The whole diff of a run, all its bytes; empty when it changed nothing.

    Raises:
        RunNotFound: as `read_report`.
    """
    read_report(folder, run)
    patch = (find_run(folder, run) / DIFF).read_bytes()  # read as text, CRLF would be LF
    return patch.decode("utf-8", "surrogateescape")


def find_run(folder: Path, run: str) -> Path:
    """The folder of one run.

    Raises:
        RunNotFound: none or several begin so.
    """
    found = list(_beginning_with(folder, run))
    if len(found) == 1:
        return found[0]
    if not found:
        raise RunNotFound(f"no run {run!r}: `harness runs list` names the known ones")
    raise RunNotFound(f"run {run!r} is one of {', '.join(p.name for p in found)}: say more of it")


def resolve_id(folder: Path, run: str) -> str:
    """The id of the one run here that begins so; else what was given, as a run of elsewhere.

    Raises:
        RunNotFound: several begin so.
    """
    found = [own.name for own in _beginning_with(folder, run)]
    return run if run in found or not found else find_run(folder, run).name


def _beginning_with(folder: Path, run: str) -> Iterator[Path]:
    if run.isalnum():
        yield from sorted(path.parent for path in folder.glob(f"{run}*/{ASKED}"))


def _asked(own: Path) -> RunRecord:
    asked = read_record(own)
    if asked is None:
        raise RunNotFound(f"run {own.name} has gone while it was looked at")
    return asked


def has_run_exited(own: Path, asked: RunRecord) -> bool:
    """Whether the process that did the run is gone; one of before a reboot left no lock."""
    return has_exited(asked.process) if known_process(asked.process) else is_abandoned(own)


def _words(asked: RunRecord) -> str:
    shown = without_password(asked.repo)
    return f"{asked.run_id} {asked.name} {shown} {asked.intent}".lower()


def _resumable(own: Path, asked: RunRecord) -> bool:
    """Whether it can go on where nobody does it; one that was queued begins then."""
    return asked.queued or (own / CHECKPOINT).is_file()


def _entry(own: Path, asked: RunRecord) -> RunEntry:
    done = load_report(own)
    dead = done is None and has_run_exited(own, asked)
    now: State = "lost" if dead else "queued" if asked.queued else "running"
    return RunEntry(
        run_id=asked.run_id,
        blueprint=asked.name,
        repo=without_password(asked.repo),
        intent=asked.intent,
        started_at=asked.started_at,
        state=done.status if done else now,
        flow_run_id=asked.flow_run_id,
        branch=done.branch if done else None,
        resumable=(done is not None or dead) and _resumable(own, asked),
        suspends=asked.suspends,
    )
