"""Cancels a run from another process: SIGTERM first, SIGKILL if it does not end."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

from contracts.errors import RunNotRunning
from flows.config.settings import Settings
from flows.runs.home import REPORT
from flows.runs.run_record import read_record
from flows.runs.runs import RunEntry, find_run, read_entry
from sandbox.process_label import has_exited, is_local, pid_of

PATIENCE_S = 30.0
"""Seconds after which a run that has not reported is killed, with its container."""


def cancel_any_run(settings: Settings, run: str) -> RunEntry:
    """Cancel a run by its id or an unambiguous prefix; return its state afterwards.

    The pending approvals of a waiting run are denied, and the run cannot be resumed.

    Raises:
        RunNotFound: no such run, or several.
        RunNotRunning: it has ended, or it runs on another machine.
        PrefectUnavailable: it waits, and its flow run cannot be cancelled.
    """
    folder = settings.runs
    own = find_run(folder, run)
    entry = read_entry(folder, own.name)
    record = read_record(own)
    if entry.state == "waiting":
        _withdraw(settings, entry)
        return read_entry(folder, own.name)
    if record is None or entry.state not in ("queued", "running"):
        raise RunNotRunning(f"run {own.name} is not running: it is {entry.state}")
    if not is_local(record.process):
        raise RunNotRunning(
            f"run {own.name} is done by a process of another machine: cancel it there, or its "
            f"flow run {record.flow_run_id} in the Prefect UI"
        )
    _end(record.process, own / REPORT)
    return read_entry(folder, own.name)


def _withdraw(settings: Settings, entry: RunEntry) -> None:
    # Imports Prefect and the stores, which ending a process does not need.
    from flows.execution.wiring import build_dependencies
    from flows.orchestration.start import connected_to
    from flows.services.prefect_server import api_url

    with connected_to(api_url(settings)):
        from flows.execution.cancel_waiting import cancel_waiting_run_and_flow_run

        cancel_waiting_run_and_flow_run(build_dependencies(settings), entry)


def _end(process: str, report: Path) -> None:
    _signal(process, signal.SIGTERM)
    give_up = monotonic() + PATIENCE_S
    while not has_exited(process) and not report.is_file():
        if monotonic() > give_up:
            _signal(process, signal.SIGKILL)
        sleep(0.05)


def _signal(process: str, sign: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid_of(process), sign)
