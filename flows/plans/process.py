"""Which process of this machine does a plan, so that one whose process is gone can be told."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.runs.home import write_in_home
from flows.runs.lock import file_lock, is_locked
from policy.log.event_log import EventLog
from sandbox.process_label import has_exited, is_local, process_label


def plan_folder(log: EventLog) -> Path:
    """Where this machine keeps what is about plans and stands in no log."""
    return log.head_file.path.parent / "plans"


@contextmanager
def record_process(log: EventLog, run_id: str) -> Iterator[None]:
    """This process does the plan from now on, until it ends; those of elsewhere see the block."""
    file = _file(log, run_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_in_home(file, process_label(os.getpid()), run_id=run_id)
    with file_lock(file):
        yield


def is_process_alive(log: EventLog, run_id: str) -> bool | None:
    """Whether the process that did the plan last still lives; None when none did, here.

    One of before a reboot left no lock.
    """
    file = _file(log, run_id)
    try:
        label = file.read_text()
    except FileNotFoundError:
        return None
    return not has_exited(label) if is_local(label) else is_locked(file)


def _file(log: EventLog, run_id: str) -> Path:
    return plan_folder(log) / f"{run_id}.process"
