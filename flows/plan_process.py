"""Which process of this machine does a plan, so that one whose process is gone can be told."""

import os
from pathlib import Path

from flows.asked import write_whole
from policy.log import EventLog
from sandbox.process import is_dead, process_label


def plan_folder(log: EventLog) -> Path:
    """Where this machine keeps what is about plans and stands in no log."""
    return log.head.path.parent / "plans"


def note_process(log: EventLog, run_id: str) -> None:
    """This process does the plan from now on, until it ends."""
    file = _file(log, run_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, process_label(os.getpid()))


def has_process(log: EventLog, run_id: str) -> bool | None:
    """Whether the process that did the plan last still lives; None when none did, here."""
    try:
        return not is_dead(_file(log, run_id).read_text())
    except FileNotFoundError:
        return None


def _file(log: EventLog, run_id: str) -> Path:
    return plan_folder(log) / f"{run_id}.process"
