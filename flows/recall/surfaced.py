"""What one run is shown of memory: playbooks before its nodes, notes and examples before each."""

from dataclasses import replace

from contracts.run import SurfacedMemory
from flows.recall.notes import RunNotes
from flows.recall.playbooks import RunMemory
from flows.runs.request import ResolvedRequest
from memory.around_run import RecallResult


class RunRecall:
    """Asks memory for one run, and tells what the run was shown in all, by earlier processes too
    where it is `resumed`."""

    def __init__(
        self,
        request: ResolvedRequest,
        run_id: str,
        memory: RunMemory,
        book: RunNotes,
        *,
        resumed: bool,
    ) -> None:
        self._request = request
        self._run_id = run_id
        self._memory = memory
        self._book = book
        self._resumed = resumed
        self._shown: tuple[str, ...] = ()  # by this process

    def recall(self) -> RecallResult:
        """What memory has for this task."""
        task = self._request.intent or self._request.definition.description
        recall = self._memory.surface(self._run_id, task)
        self._shown = recall.shown
        return recall

    def all_surfaced(self) -> SurfacedMemory:
        """All that the run was shown so far; nobody asks where no agent works."""
        if not self._resumed and not self._request.agentic_nodes:
            return SurfacedMemory()
        before = self._memory.shown_playbooks(self._run_id) if self._resumed else ()
        shown = tuple(dict.fromkeys((*before, *self._shown)))
        return replace(self._book.surfaced(self._run_id), playbooks=shown)
