"""Reports that memory has not recorded yet, because a process died or memory was unavailable."""

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from contracts.errors import HarnessError, RunNotFound, RunNotResumable
from flows.execution.dependencies import RunDependencies
from flows.recall.playbooks import MemoryUnavailable
from flows.runs import runs
from flows.runs.home import write_in_home
from flows.runs.layout import CHECKPOINT, REPORT, UNTOLD
from flows.runs.lock import run_lock

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class UnrecordedRun:
    """Data that memory needs in addition to the report; `over` if the run cannot be resumed."""

    verdict_later: bool
    over: bool


def mark_unrecorded(folder: Path, unrecorded_run: UnrecordedRun) -> None:
    """Mark the run's report as not yet recorded in memory."""
    write_in_home(folder / UNTOLD, json.dumps(asdict(unrecorded_run)), run_id=folder.name)


def mark_recorded(folder: Path) -> None:
    """Remove the mark."""
    (folder / UNTOLD).unlink(missing_ok=True)


def record_late(dependencies: RunDependencies) -> int:
    """Record the marked reports in memory; return how many. Recording one twice has no effect.

    A report that cannot be recorded keeps its mark for the next call.
    """
    return sum(_try_record(dependencies, own) for own in list(_marked(dependencies.runs)))


def _try_record(dependencies: RunDependencies, own: Path) -> bool:
    try:
        return _record(dependencies, own)
    except (RunNotResumable, RunNotFound):  # executed by another process, or gone
        return False
    except HarnessError as error:
        _log.warning("run %s is not recorded in memory: %s", own.name, error)
        return False
    except Exception:  # noqa: BLE001 - a door: one damaged run holds up no other
        _log.exception("run %s could not be recorded in memory", own.name)
        return False


def _marked(folder: Path) -> Iterator[Path]:
    for path in folder.glob(f"*/{UNTOLD}"):
        record = runs.try_read_record(path.parent)
        if record is not None and runs.has_run_exited(path.parent, record):
            yield path.parent


def _record(dependencies: RunDependencies, own: Path) -> bool:
    with run_lock(dependencies.runs, own.name):
        path, report = own / UNTOLD, own / REPORT
        if not path.is_file() or not report.is_file():
            return False
        unrecorded_run = TypeAdapter(UnrecordedRun).validate_json(path.read_bytes())
        known = runs.read_report(dependencies.runs, own.name)
        if isinstance(
            dependencies.memory.record(known, unrecorded_run.verdict_later), MemoryUnavailable
        ):
            return False
        if unrecorded_run.over:
            (own / CHECKPOINT).unlink(missing_ok=True)
            dependencies.remove_snapshots(own.name, ())
        mark_recorded(own)
        return True
