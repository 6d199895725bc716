"""From being told to end to no container, told in each of the three ways."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from secrets import token_hex
from time import monotonic, sleep

from benchmarks.chaos.stage import Process, Stage
from benchmarks.operate.worked import WAITS, deployment_id, start
from benchmarks.row import Row
from flows.execution.wiring import sandbox_owner
from flows.runs.home import REPORT
from flows.runs.runs import read_report
from flows.services.prefect_server import prefect_client
from sandbox.engine import DockerEngine
from sandbox.reap import list_sandboxes

GONE_S = 5.0
PATIENCE_S = 120.0

Began = AbstractContextManager[tuple[str, Callable[[], None]]]
"""A run that was begun: its id, and what tells it to end."""


def rows(made: Stage, api: str, size: int) -> Iterator[Row]:
    """Cancel so often in each way."""
    ways: Mapping[str, Callable[[], Began]] = {
        "in the UI": partial(_in_ui, made, api),
        "on the command line": partial(_by_command, made),
        "by Ctrl-C": partial(_by_ctrl_c, made),
    }
    for way, begin in ways.items():
        times = sorted(_cancelled(made, begin, way) for _ in range(size))
        slow = times[min(size - 1, int(size * 0.99))]
        yield Row(
            name=f"cancel {way} to container gone, p99 of {size}",
            ours=slow,
            baseline=GONE_S,
            ratio=slow / GONE_S,
            target="at most 5 s",
            note=f"p50 {times[size // 2]:.2f} s",
        )


def _cancelled(made: Stage, begin: Callable[[], Began], way: str) -> float:
    with begin() as (run_id, tell):
        _until(lambda: "sleep" in _running(made, run_id))
        began = monotonic()
        tell()
        _until(lambda: not _containers(made, run_id))
        took = monotonic() - began
        _until((made.settings.runs / run_id / REPORT).exists)
    print(f"  cancelled {way} in {took:.2f} s", file=sys.stderr, flush=True)
    assert read_report(made.settings.runs, run_id).status == "cancelled"
    return took


@contextmanager
def _in_ui(made: Stage, api: str) -> Iterator[tuple[str, Callable[[], None]]]:
    from prefect.states import Cancelling

    run = start(api, deployment_id(api, "run-blueprint"), made.ask(WAITS))

    def tell() -> None:
        with prefect_client(api) as client:
            client.set_flow_run_state(run, Cancelling())

    yield str(run)[-8:], tell


@contextmanager
def _by_command(made: Stage) -> Iterator[tuple[str, Callable[[], None]]]:
    run_id = token_hex(4)
    begun = list[Process]()
    with made.start(run_id, WAITS):
        yield run_id, lambda: begun.append(made.command("runs", "cancel", run_id))
    for command in begun:
        command.wait(timeout=PATIENCE_S)


@contextmanager
def _by_ctrl_c(made: Stage) -> Iterator[tuple[str, Callable[[], None]]]:
    run_id = token_hex(4)
    # A job that a shell has put into the background is deaf to it, and so is what it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with made.start(run_id, WAITS) as process:
        yield run_id, lambda: process.send_signal(signal.SIGINT)


def _running(made: Stage, run_id: str) -> str:
    """The processes in the run's container."""
    for found in _containers(made, run_id):
        asked = ("docker", "top", found, "-o", "pid,args")
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    return ""


def _containers(made: Stage, run_id: str) -> list[str]:
    found = list_sandboxes(DockerEngine(), sandbox_owner(made.settings))
    return [sandbox.id for sandbox in found if sandbox.run_id == run_id]


def _until(true: Callable[[], bool]) -> None:
    give_up = monotonic() + PATIENCE_S
    while not true():
        if monotonic() > give_up:
            raise TimeoutError("what should happen did not")
        sleep(0.05)
