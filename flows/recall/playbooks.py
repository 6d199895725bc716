"""Playbooks before a run's nodes, and a record after them. Knows nothing of Prefect."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING

from contracts.chat import Complete
from contracts.errors import HarnessError, Unavailable
from contracts.run import RunReport
from contracts.tool import Toolbox
from flows.config.memory import MemorySettings, load_memory_settings
from memory.types import GroupedResults, RecallResult, RecordedRun, Reflection

if TYPE_CHECKING:
    from memory.playbooks.library import Library

OpenTools = Callable[[str], AbstractContextManager[Callable[[], Toolbox | None]]]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class MemoryUnavailable:
    """Memory did not record the report; it must be recorded later."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class RunMemory:
    """Functions that a run calls on memory. An outage is logged and fails no run."""

    prepare: Callable[[], None]
    """Starts to import what the other functions need, while the sandbox starts."""
    surface: Callable[[str, str], RecallResult]
    """Takes the run's id and its task; returns the text for the prompt."""
    shown_playbooks: Callable[[str], tuple[str, ...]]
    """Takes the run's id; returns the ids of the playbooks it was shown so far."""
    record: Callable[[RunReport, bool], RecordedRun | MemoryUnavailable | None]
    """Takes the report and whether a person's verdict comes later; returns None if memory is
    off."""
    tools: OpenTools
    """Takes the run's id; yields a function that returns the playbook tools for its agents."""


def run_memory(
    options: MemorySettings | None = None, complete: Complete | None = None
) -> RunMemory:
    """Return memory as plain functions.

    With a `reflect_model`, `complete` is called to reflect on runs that succeeded or failed.
    """
    chosen = options or load_memory_settings()
    if not chosen.enabled:
        return _without_memory()

    def surface(run_id: str, task: str) -> RecallResult:
        from flows.recall.library import configured_library
        from memory.playbooks import recall

        try:
            with configured_library(chosen) as opened:
                opened.expire_pending()
                return recall.recall_playbooks(
                    opened, run_id=run_id, task=task, options=chosen.surfacing
                )
        except Unavailable as error:
            _log.warning("run %s continues without memory: %s", run_id, error)
            return _nothing(run_id, task)

    def shown(run_id: str) -> tuple[str, ...]:
        from flows.recall.library import configured_library
        from memory.database import read_transaction
        from memory.playbooks.recall import playbooks_known_to

        try:
            with (
                configured_library(chosen) as opened,
                read_transaction(opened.engine) as connection,
            ):
                known = playbooks_known_to(connection, run_id)
                return tuple(one.playbook_id for one in known if one.shown)
        except Unavailable as error:
            _log.warning("cannot read which playbooks run %s was shown: %s", run_id, error)
            return ()

    def record(report: RunReport, verdict_later: bool) -> RecordedRun | MemoryUnavailable:
        try:
            return _record(chosen, report, verdict_later, complete)
        except HarnessError as error:
            _log.warning("run %s is not recorded yet: %s", report.run_id, error)
            return MemoryUnavailable(reason=str(error))

    def tools(run_id: str) -> AbstractContextManager[Callable[[], Toolbox | None]]:
        if chosen.tools == "off":
            return nullcontext(lambda: None)
        from flows.recall.tools import run_toolbox

        return run_toolbox(chosen, chosen.tools, run_id)

    # Importing SQLAlchemy and the library takes 0.3 s: here while the sandbox starts. The functions
    # above import the same modules, as a run may be recorded without `prepare`.
    def prepare() -> None:
        Thread(target=_import_library, name="memory", daemon=True).start()

    return RunMemory(
        prepare=prepare, surface=surface, shown_playbooks=shown, record=record, tools=tools
    )


def _import_library() -> None:
    from flows.recall import library  # noqa: F401 - importing it is the point
    from memory.playbooks import learn, recall  # noqa: F401 - as above


def _without_memory() -> RunMemory:
    return RunMemory(
        prepare=lambda: None,
        surface=_nothing,
        shown_playbooks=lambda _: (),
        record=lambda *_: None,
        tools=lambda _: nullcontext(lambda: None),
    )


def _record(
    chosen: MemorySettings, report: RunReport, verdict_later: bool, complete: Complete | None
) -> RecordedRun:
    from flows.recall.library import configured_library
    from memory.playbooks import learn

    with configured_library(chosen) as opened:
        asks = chosen.reflect_model and learn.can_reflect(opened, report)
        reflection = _reflection(opened, report, chosen.reflect_model, complete) if asks else None
        return learn.record_run(opened, report, verdict_later=verdict_later, reflection=reflection)


def _reflection(
    library: "Library", report: RunReport, model: str | None, complete: Complete | None
) -> Reflection | None:
    if model is None or complete is None:
        return None
    from memory.playbooks.learn import credited_playbook, reflect

    try:
        return reflect(complete, model, report, credited_playbook(library, report))
    except HarnessError as error:
        _log.warning("run %s was not reflected on: %s", report.run_id, error)
        return None


def _nothing(run_id: str, task: str) -> RecallResult:
    return RecallResult(
        run_id=run_id, text="", shown=(), held_out=False, results=GroupedResults(query=task)
    )
