"""What a run asks of memory: playbooks before the nodes, a record after them. No Prefect here."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from contracts.chat import Complete
from contracts.errors import ModelUnavailable, Unavailable
from contracts.run import RunReport
from flows.library import library
from flows.memory_settings import MemorySettings, load_memory_settings
from memory import learn, recall
from memory.learn import Recorded
from memory.recall import Recall
from memory.types import Contrasted, Reflection

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a run asks of memory. Neither call fails a run: an outage is logged and goes on."""

    surface: Callable[[str, str], Recall]
    """Takes the run's id and its task; gives what the prompt is to hold."""
    record: Callable[[RunReport], Recorded | None]
    """Takes the report, however the run ended."""


def memory(options: MemorySettings | None = None, complete: Complete | None = None) -> Memory:
    """Memory as plain functions. `complete` reflects on runs when a `reflect_model` is set."""
    chosen = options or load_memory_settings()

    def surface(run_id: str, task: str) -> Recall:
        if not chosen.enabled:
            return _nothing(run_id, task)
        try:
            with library(chosen) as opened:
                opened.expire_pending()
                return recall.surface(opened, run_id=run_id, task=task, options=chosen.surfacing)
        except Unavailable as error:
            _log.warning("run %s goes on without memory: %s", run_id, error)
            return _nothing(run_id, task)

    def record(report: RunReport) -> Recorded | None:
        if not chosen.enabled:
            return None
        try:
            with library(chosen) as opened:
                reflection = _reflection(report, chosen.reflect_model, complete)
                return learn.record(opened, report, reflection=reflection)
        except Unavailable as error:
            _log.warning("run %s is not recorded: %s", report.run_id, error)
            return None

    return Memory(surface=surface, record=record)


def _reflection(
    report: RunReport, model: str | None, complete: Complete | None
) -> Reflection | None:
    if model is None or complete is None:
        return None
    try:
        return learn.reflect(complete, model, report)
    except ModelUnavailable as error:
        _log.warning("nobody reflected on run %s: %s", report.run_id, error)
        return None


def _nothing(run_id: str, task: str) -> Recall:
    return Recall(run_id=run_id, text="", shown=(), held_out=False, found=Contrasted(query=task))
