"""Many runs asked for at once: what waits, what answers meanwhile, what is said in the logs."""

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import monotonic
from uuid import UUID

import httpx

from benchmarks.chaos.stage import Stage
from benchmarks.operate.worked import NOTHING, Worked, deployed_bare, deployment_id, start, worked
from benchmarks.row import Row
from flows import kept, local
from flows.worker import worker

LOOK_S = 0.25
LOCKED = "database is locked"


def rows(made: Stage, api: str, size: int) -> Iterator[Row]:
    """As many bare runs as ours, one queue after the other; the server is asked all the time.

    Both queues are done by the same worker and fork server, as many at once. Of the bare one only
    the median from taken to first task is taken off, not how long its slots were free.
    """
    at_once = made.settings.max_runs
    began_s = _spent_s(made, api)
    bare = _done(api, deployed_bare(made, api, "bare-queue", {}), {}, size)
    between_s = _spent_s(made, api)
    with _listed(api) as answers:
        ours = _done(api, deployment_id(api, "run-blueprint"), made.ask(NOTHING), size)
    ours_s, bare_s = _spent_s(made, api) - between_s, between_s - began_s
    right = sum(run.state == "COMPLETED" for run in ours)
    yield _row(f"{size} runs at once: end right", right, size, f"{size} of {size}", "runs")
    waits = _waits(ours, at_once)
    start_s = median(run.start_s for run in bare)
    over = [wait + run.start_s - start_s for wait, run in waits]
    yield _row(
        "a slot is free to first node, above bare start, p50",
        median(over),
        start_s,
        "at most 2 s",
        note=f"of it {median(wait for wait, _ in waits):.2f} s until the worker takes the run",
    )
    took = (max(r.over for r in ours) - min(r.claimed for r in ours)).total_seconds()
    took_bare = (max(r.over for r in bare) - min(r.claimed for r in bare)).total_seconds()
    yield _row("the whole queue", took, took_bare, "", note=f"{size * 60 / took:.0f} runs a minute")
    yield _row("processor time of a run, server's too", ours_s / size, bare_s / size, "")
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
    for running in (local.status(made.settings), kept.status(worker(made.settings, api))):
        if running is not None:
            under = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
            for pid in (running.pid, *under):
                stat = Path(f"/proc/{pid}/stat").read_text()
                ticks += sum(int(field) for field in stat.rpartition(")")[2].split()[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _done(api: str, deployment: UUID, asked: Mapping[str, object], size: int) -> list[Worked]:
    runs = [start(api, deployment, asked) for _ in range(size)]
    seen = []
    for number, run in enumerate(runs, 1):
        seen.append(worked(api, run))
        print(f"  {number} of {size}: {seen[-1].state}", file=sys.stderr, flush=True)
    return seen


def _waits(runs: list[Worked], at_once: int) -> list[tuple[float, Worked]]:
    """For each run that found no free slot: how long one was free before it was taken."""
    by_claim = sorted(runs, key=lambda run: run.claimed)
    freed = sorted(run.over for run in runs)
    later = by_claim[at_once:]
    pairs = zip(freed, later, strict=False)
    return [((run.claimed - free).total_seconds(), run) for free, run in pairs]


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
