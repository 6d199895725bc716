"""Runs over two machines, one of which dies: how many end right, and how soon its runs go on."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from benchmarks.chaos.stage import Stage
from benchmarks.operate.worked import NAPS, PATIENCE_S, all_worked, deployment_id, start
from benchmarks.row import Row
from flows.config.settings import Settings
from flows.execution.wiring import sandbox_owner
from flows.services.daemon import state_files
from flows.services.daemons import machine_name
from flows.services.machines import DIED, WORKER_LABEL
from flows.services.prefect_server import prefect_client
from sandbox.engine import DockerEngine
from sandbox.reap import reap

SOON_S = 90.0
AT_ONCE = 4


def rows(made: Stage, api: str, size: int) -> Iterator[Row]:
    """Kill the second machine when a quarter of the runs is over and it executes some."""
    with _second_machine(made, api) as second:
        deployment = deployment_id(api, "run-blueprint")
        runs = [start(api, deployment, made.ask(NAPS)) for _ in range(size)]
        name = machine_name(second)
        _wait_for_work(api, runs, name)
        died = datetime.now(UTC)
        _kill(second.home)
        taken = [run.id for run in _read(api, runs) if _is_open_on(run, name)]
        print(f"  {name} died with {len(taken)} runs", file=sys.stderr, flush=True)
        all_worked(api, deployment, size)
    ended = _read(api, runs)
    right = sum(run.state is not None and run.state.is_completed() for run in ended)
    yield Row(
        name=f"{size} runs over two machines, one killed: end right",
        ours=right,
        baseline=size,
        ratio=right / size,
        target=f"{size} of {size}",
        unit="runs",
        note=f"it died with {len(taken)} runs",
    )
    again = [_again(api, run) for run in taken]
    scheduled, resumed = (max(times) - died for times in zip(*again, strict=True))
    yield Row(
        name="a machine dies to its last run under way on another one",
        ours=resumed.total_seconds(),
        baseline=SOON_S,
        ratio=resumed.total_seconds() / SOON_S,
        target="at most 90 s",
        note=f"of it {scheduled.total_seconds():.0f} s until it was scheduled again",
    )


@contextmanager
def _second_machine(made: Stage, api: str) -> Iterator[Settings]:
    """Another home that works for the same server."""
    second = Settings(home=made.place / "second", max_runs=AT_ONCE)
    own = {
        "HARNESS_HOME": str(second.home),
        "HARNESS_MAX_RUNS": str(AT_ONCE),
        "PREFECT_API_URL": api,
    }

    def harness(command: str) -> None:
        with made.said.open("ab") as said:
            process = made.begin((command,), {**made.env, **own}, made.place, said)
            if process.wait(timeout=300):
                raise RuntimeError(f"`harness {command}` failed: {made.said.read_text()[-2000:]}")

    harness("up")
    try:
        yield second
    finally:
        harness("down")
        reap(DockerEngine(), sandbox_owner(second), everything=True)


def _wait_for_work(api: str, runs: list[UUID], name: str) -> None:
    give_up = monotonic() + PATIENCE_S
    while monotonic() < give_up:
        now = _read(api, runs)
        over = sum(run.state is not None and run.state.is_final() for run in now)
        busy = sum(_is_open_on(run, name) for run in now)
        if over >= len(runs) // 4 and busy > 1:
            return
        sleep(0.5)
    raise TimeoutError(f"{name} executes no runs")


def _is_open_on(run: FlowRun, name: str) -> bool:
    is_open = run.state is not None and (run.state.is_pending() or run.state.is_running())
    return is_open and run.labels.get(WORKER_LABEL) == name


def _read(api: str, runs: list[UUID]) -> list[FlowRun]:
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    with prefect_client(api) as client:
        return client.read_flow_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=runs)))


def _again(api: str, run: UUID) -> tuple[datetime, datetime]:
    """When the run was scheduled again after its machine had died, and when it was under way."""
    with prefect_client(api) as client:
        states = sorted(client.read_flow_run_states(run), key=lambda state: state.timestamp)
    scheduled = next(n for n, state in enumerate(states) if state.message == DIED)
    begun = next(state for state in states[scheduled:] if state.is_running())
    return states[scheduled].timestamp, begun.timestamp


def _kill(home: Path) -> None:
    """End everything that this home started, as a power cut does."""
    roots = [json.loads(file.read_text())["pid"] for file in state_files(home)]
    for pid in [pid for root in roots for pid in (root, *_descendants(root))]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> Iterator[int]:
    for path in Path("/proc", str(pid)).glob("task/*/children"):
        with suppress(OSError):  # the process has ended
            for child in map(int, path.read_text().split()):
                yield child
                yield from _descendants(child)
