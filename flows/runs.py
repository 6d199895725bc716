"""The folder of runs: what each was asked, its report, its diff, its trajectory."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Literal, TypedDict

from contracts.errors import RunNotFound
from contracts.run import RunReport
from flows.report import dumps, loads
from flows.request import FlowRun, RunRequest
from sandbox.process import is_dead, process_label

State = Literal["success", "failure", "cancelled", "waiting", "running", "lost"]


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """One line of `harness runs list`. `lost`: its process died before it could report."""

    run_id: str
    blueprint: str
    repo: str
    intent: str
    started_at: str
    state: State
    flow_run_id: str | None
    branch: str | None


def begin(folder: Path, run_id: str, request: RunRequest, flow_run: FlowRun | None) -> Path:
    """Make the run's own folder and note there what was asked, by which process."""
    own = folder / run_id
    own.mkdir(parents=True)
    asked = {
        "run_id": run_id,
        "blueprint": request.blueprint.name,
        "repo": request.repo,
        "intent": request.intent,
        "flow_run_id": flow_run.id if flow_run else None,
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "process": process_label(os.getpid()),
    }
    write_whole(own / "run.json", json.dumps(asked, indent=2))
    return own


def finish(folder: Path, report: RunReport, diff: str) -> None:
    """Keep the report and the whole diff."""
    write_whole(folder / "diff.patch", diff)
    write_whole(folder / "report.json", dumps(report))


def list_runs(folder: Path, *, limit: int) -> list[RunEntry]:
    """The newest runs, newest first."""
    return list(islice(each_run(folder), limit))


def each_run(folder: Path) -> Iterator[RunEntry]:
    """Every run, newest first; a report is read only when its run's turn comes."""
    asked = [(_asked(path.parent), path.parent) for path in folder.glob("*/run.json")]
    asked.sort(key=lambda pair: pair[0]["started_at"], reverse=True)
    return (_entry(own, known) for known, own in asked)


def count_runs(folder: Path) -> int:
    """How many runs there are."""
    return sum(1 for _ in folder.glob("*/run.json"))


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
    path = own / "report.json"
    if not path.is_file():
        raise RunNotFound(f"run {own.name} has no report: it is {read_entry(folder, run).state}")
    return loads(path.read_text())


def read_diff(folder: Path, run: str) -> str:
    """The whole diff of a run; empty when it changed nothing.

    Raises:
        RunNotFound: as `read_report`.
    """
    read_report(folder, run)
    return (find_run(folder, run) / "diff.patch").read_text(errors="surrogateescape")


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


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never half."""
    part = path.with_suffix(".part")
    part.write_text(text, errors="surrogateescape")
    part.replace(path)


def _beginning_with(folder: Path, run: str) -> Iterator[Path]:
    if run.isalnum():
        yield from sorted(path.parent for path in folder.glob(f"{run}*/run.json"))


class _Asked(TypedDict):
    run_id: str
    blueprint: str
    repo: str
    intent: str
    flow_run_id: str | None
    started_at: str
    process: str


def _asked(own: Path) -> _Asked:
    asked: _Asked = json.loads((own / "run.json").read_text())
    return asked


def _entry(own: Path, asked: _Asked) -> RunEntry:
    report = own / "report.json"
    done = loads(report.read_text()) if report.is_file() else None
    return RunEntry(
        run_id=asked["run_id"],
        blueprint=asked["blueprint"],
        repo=asked["repo"],
        intent=asked["intent"],
        started_at=asked["started_at"],
        state=done.status if done else _undone(asked["process"]),
        flow_run_id=asked["flow_run_id"],
        branch=done.branch if done else None,
    )


def _undone(process: str) -> State:
    return "lost" if is_dead(process) else "running"
