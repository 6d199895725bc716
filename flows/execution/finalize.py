"""How a run ends: its status and why, and in which order its end is kept."""

from dataclasses import dataclass
from pathlib import Path

from contracts.errors import HarnessError
from contracts.run import RunReport, RunStatus
from flows.execution import unrecorded
from flows.execution.unrecorded import UnrecordedRun
from flows.recall.notes import RunNotes
from flows.recall.playbooks import MemoryUnavailable, RunMemory
from flows.runs import runs
from flows.runs.checkpoints import Checkpoints
from nodes.node_errors import describe_node_error
from sandbox.workspace import WorkCommit


def status_for_error(error: BaseException) -> RunStatus:
    """How a run ended that this ended."""
    return "failure" if isinstance(error, Exception) else "cancelled"


def failure_reason(error: BaseException) -> str:
    """The same, in words."""
    if not isinstance(error, Exception):  # Ctrl-C, or Prefect's signal
        said = str(error) if isinstance(error, KeyboardInterrupt) else ""
        return said or "it was cancelled"
    if isinstance(error, HarnessError):
        return str(error)
    return describe_node_error(error) or f"{type(error).__name__}: {error}".rstrip(": ")


@dataclass(frozen=True, kw_only=True)
class Finalizer:
    """Where the end of one run is kept; `folder` is the run's own."""

    folder: Path
    checkpoints: Checkpoints
    memory: RunMemory
    book: RunNotes

    def keep(
        self, report: RunReport, work: WorkCommit | None, note: UnrecordedRun, *, teaches: bool
    ) -> None:
        """Keep the report, tell memory, and drop what only a run that goes on needs.

        Whoever dies on the way leaves the note or the checkpoint, by which another does the rest.
        """
        unrecorded.mark_unrecorded(self.folder, note)
        runs.save_report(self.folder, report, work.diff if work else "")
        told = self.memory.record(report, note.verdict_later)
        if teaches and self.book.is_worth_curating(report):
            self.book.curate(report.run_id)
        if note.over:
            self.checkpoints.drop()
        if not isinstance(told, MemoryUnavailable):
            unrecorded.mark_recorded(self.folder)
