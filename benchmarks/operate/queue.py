"""Many runs asked for at once: what waits, what answers meanwhile, what is said in the logs."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import monotonic
from typing import NamedTuple
from uuid import UUID

import httpx

from benchmarks.chaos.stage import Stage
from benchmarks.operate.worked import (
    NOTHING,
    OWN_WAY,
    Worked,
    all_worked,
    deployed_bare,
    deployment_id,
    start,
    worked,
)
from benchmarks.row import Row
from flows.services import prefect_server
from flows.services.daemons import worker_daemon

LOOK_S = 1.0
SLOW = 64
"""Bare runs that Prefect starts itself: each imports Prefect anew, which takes seconds."""

LOCKED = "database is locked"


def rows(made: Stage, api: str, size: int) -> Iterator[Row]:
    """Ours, and as many bare runs in processes like ours; then some as Prefect starts them.

    The same worker does all, as many at once, while the server is asked for the list of runs.
    """
    began_s = _spent_s(made, api)
    ours, answers = _done(api, deployment_id(api, "run-blueprint"), made.ask(NOTHING), size)
    between_s = _spent_s(made, api)
    alike, _ = _done(api, deployed_bare(made, api, "bare-alike-queue", {}), {}, size)
    ours_s, alike_s = between_s - began_s, _spent_s(made, api) - between_s
    bare, _ = _done(api, deployed_bare(made, api, "bare-queue", OWN_WAY), {}, min(size, SLOW))
    right = sum(run.state == "COMPLETED" for run in ours)
    yield _row(f"{size} runs at once: end right", right, size, f"{size} of {size}", "runs")
    at_once = made.settings.max_runs
    begun, begun_alike, begun_bare = (_begun(runs, at_once) for runs in (ours, alike, bare))
    for name, other in (
        ("a bare flow", begun_bare),
        ("a bare flow in a process like ours", begun_alike),
    ):
        yield _row(
            f"a slot is free to first node, above {name}, p50",
            begun.whole_s - other.whole_s,
            other.whole_s,
            "at most 2 s",
            note=f"{begun.whole_s:.2f} s, of it {begun.wait_s:.2f} until the worker takes the run",
        )
    took, took_alike = _took_s(ours), _took_s(alike)
    yield _row(
        "the whole queue", took, took_alike, "", note=f"{size * 60 / took:.0f} runs a minute"
    )
    yield _row("processor time of a run, server's too", ours_s / size, alike_s / size, "")
    slow = sorted(answers)[int(len(answers) * 0.99)]
    yield _row(
        "list of runs meanwhile, p99", slow, 1.0, "at most 1 s", note=f"{len(answers)} asked"
    )
    said = {path.name: path.read_text(errors="replace").count(LOCKED) for path in made.logs}
    retried = f"{said.pop('server.log', 0)} in the server's own, which its clients retried"
    yield _row(f"{LOCKED!r} told to a user", sum(said.values()), 0, "0", "lines", note=retried)


def _spent_s(made: Stage, api: str) -> float:
    """Processor seconds of the server, the worker, its fork server, and all runs that ended."""
    ticks = 0
    server = prefect_server.server_daemon(made.settings).status()
    worker = worker_daemon(made.settings, api).status()
    for running in (server, worker):
        if running is not None:
            under = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
            for pid in (running.pid, *under):
                stat = Path(f"/proc/{pid}/stat").read_text()
                ticks += sum(int(field) for field in stat.rpartition(")")[2].split()[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _done(
    api: str, deployment: UUID, asked: Mapping[str, object], size: int
) -> tuple[list[Worked], list[float]]:
    """The runs, when all are over, and how long each answer of the server took meanwhile."""
    with _listed(api) as answers:
        runs = [start(api, deployment, asked) for _ in range(size)]
        all_worked(api, deployment, size)
    return [worked(api, run) for run in runs], answers


class _Begun(NamedTuple):
    """Medians of the runs that found no free slot."""

    wait_s: float
    """From when a slot was free until the worker took the run."""
    whole_s: float
    """The same, and until its first task began."""


def _begun(runs: list[Worked], at_once: int) -> _Begun:
    later = sorted(runs, key=lambda run: run.claimed)[at_once:]
    freed = sorted(run.over for run in runs)
    waits = [(run.claimed - free).total_seconds() for free, run in zip(freed, later, strict=False)]
    whole = [wait + run.start_s for wait, run in zip(waits, later, strict=True)]
    return _Begun(median(waits), median(whole))


def _took_s(runs: list[Worked]) -> float:
    return (max(run.over for run in runs) - min(run.claimed for run in runs)).total_seconds()


@contextmanager
def _listed(api: str) -> Iterator[list[float]]:
    """Ask for what the page *Runs* shows, again and again; how long each answer took."""
    over, times = threading.Event(), list[float]()
    asked = {"limit": 50, "sort": "START_TIME_DESC"}

    def ask() -> None:
        with httpx.Client(base_url=api, timeout=60) as server:
            while not over.wait(LOOK_S):
                began = monotonic()
                server.post("/flow_runs/paginate", json=asked).raise_for_status()
                times.append(monotonic() - began)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield times
    finally:
        over.set()
        asking.join()


def _row(
    name: str, ours: float, baseline: float, target: str, unit: str = "s", note: str = ""
) -> Row:
    ratio = ours / baseline if baseline else ours
    return Row(
        name=name, ours=ours, baseline=baseline, ratio=ratio, target=target, unit=unit, note=note
    )
