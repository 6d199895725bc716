"""Figures of issue 8: what is left of a run after a kill, and how fast a cancelled one is gone.

`python -m benchmarks.chaos.rows 100` kills a hundred times; `… 30 flow engine` only these.
"""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from secrets import token_hex
from threading import Thread
from time import monotonic, sleep

from benchmarks.chaos.stage import Stage, stage, wait_for
from benchmarks.row import Row
from flows import gateway, local
from flows.asked import read_asked
from flows.cancel import cancel
from flows.checkpoints import read
from flows.library import library
from flows.runs import read_report
from flows.wiring import owner
from sandbox.engine import Engine
from sandbox.reap import list_sandboxes

KILLS = 20
CANCELS = 20
TRIES = 4
"""How often a run may be told to go on: a kill may hit what comes up again slowly."""

GONE_S = 5.0


@dataclass(frozen=True, kw_only=True)
class After:
    """What one kill led to."""

    what: str
    at_s: float
    tree: bool
    again: tuple[str, ...]
    containers: int
    executions: int

    @property
    def right(self) -> bool:
        return self.tree and not self.again and not self.containers and self.executions == 1


def rows(kills: int = KILLS, what: tuple[str, ...] = ()) -> Iterator[Row]:
    """Kill, go on, compare; then cancel. About twelve seconds a kill."""
    wanted = what or tuple(_KILL)
    with stage(with_engine="engine" in wanted) as made, _machine(made):
        seen = list(_disturbed(made, kills, wanted))
        yield _count("chaos: runs that end as undisturbed", seen, lambda a: a.tree, kills)
        yield _count("chaos: finished nodes run again", seen, lambda a: bool(a.again), 0)
        yield _count("chaos: containers left", seen, lambda a: bool(a.containers), 0)
        yield _count("chaos: not recorded once", seen, lambda a: a.executions != 1, 0)
        yield _cancelled(made, CANCELS)


def _disturbed(made: Stage, kills: int, wanted: tuple[str, ...]) -> Iterator[After]:
    _whole(made)  # the first run brings the gateway up
    tree, took_s = _whole(made)
    rng = random.Random(8)  # noqa: S311 - moments, the same ones each time
    for number in range(kills):
        after = _one(made, wanted[number % len(wanted)], rng.uniform(0, took_s), tree)
        print(f"  {number + 1}: {after} {'' if after.right else 'WRONG'}", file=sys.stderr)
        yield after


def _whole(made: Stage) -> tuple[str, float]:
    """An undisturbed run: its tree, and how long it took from the first sign of it."""
    run_id = token_hex(4)
    with made.start(run_id) as process:
        wait_for(made.settings.runs / run_id / "run.json", process)
        began = monotonic()
        if process.wait(timeout=300):
            raise RuntimeError(f"an undisturbed run failed: {(made.place / 'said').read_text()}")
    return made.tree(run_id), monotonic() - began


def _one(made: Stage, what: str, at_s: float, tree: str) -> After:
    run_id = token_hex(4)
    folder = made.settings.runs / run_id
    with made.start(run_id) as process:
        wait_for(folder / "run.json", process)
        sleep(at_s)
        finished = _KILL[what](made, process, run_id)
        process.wait(timeout=300)
    begun = len(made.log.read_text().splitlines())
    tries = 0
    while not _over(made, run_id) and tries < TRIES:
        tries += 1
        made.resume(run_id)
    again = [n for n in made.log.read_text().splitlines()[begun:] if n in finished]
    return After(
        what=what,
        at_s=round(at_s, 2),
        tree=made.tree(run_id) == tree,
        again=tuple(again),
        containers=_containers(made),
        executions=_executions(run_id),
    )


def _over(made: Stage, run_id: str) -> bool:
    folder = made.settings.runs / run_id
    return (folder / "report.json").exists() and not (folder / "checkpoint.json").exists()


def _finished(made: Stage, run_id: str) -> frozenset[str]:
    """What was finished once a process is dead; all of it when the run is over."""
    folder = made.settings.runs / run_id
    asked = read_asked(folder)
    kept = read(folder, asked.repo) if asked else None
    if kept is not None:
        return frozenset(kept.results)
    return frozenset(asked.nodes) if asked else frozenset()


def _kill_flow(made: Stage, process: "subprocess.Popen[bytes]", run_id: str) -> frozenset[str]:
    process.kill()
    process.wait()
    return _finished(made, run_id)


def _kill_server(made: Stage, process: "subprocess.Popen[bytes]", run_id: str) -> frozenset[str]:
    server = local.status(made.settings)
    if server is not None:
        os.kill(server.pid, signal.SIGKILL)
    process.wait(timeout=300)
    return _finished(made, run_id)


def _kill_gateway(made: Stage, process: "subprocess.Popen[bytes]", run_id: str) -> frozenset[str]:
    running = gateway.status(made.settings)
    if running is not None:
        os.kill(running.pid, signal.SIGKILL)
    process.wait(timeout=300)
    return _finished(made, run_id)


def _kill_engine(made: Stage, process: "subprocess.Popen[bytes]", run_id: str) -> frozenset[str]:
    if made.engine is not None:
        made.engine.end(signal.SIGKILL)
        process.wait(timeout=300)
        made.engine.start()
    return _finished(made, run_id)


_KILL: Mapping[str, Callable[[Stage, "subprocess.Popen[bytes]", str], frozenset[str]]] = {
    "flow": _kill_flow,
    "server": _kill_server,
    "gateway": _kill_gateway,
    "engine": _kill_engine,
}


def _containers(made: Stage) -> int:
    """Containers of the stage that are still there after the time they may take to go."""
    give_up = monotonic() + GONE_S
    while found := len(list_sandboxes(Engine(), owner(made.settings))):
        if monotonic() > give_up:
            break
        sleep(0.1)
    return found


def _executions(run_id: str) -> int:
    with library() as opened:
        return sum(e.run_id == run_id for e in opened.list_executions())


def _cancelled(made: Stage, cancels: int) -> Row:
    """From being told to end to no container, while nodes are at work."""
    times = []
    for _ in range(cancels):
        run_id = token_hex(4)
        before = made.log.read_text().count("\n")
        with made.start(run_id) as process:
            while made.log.read_text().count("\n") < before + 2:
                sleep(0.01)
            telling = Thread(target=cancel, args=(made.settings.runs, run_id))
            began = monotonic()
            telling.start()
            while list_sandboxes(Engine(), owner(made.settings)):
                sleep(0.05)
            times.append(monotonic() - began)
            telling.join()
            process.wait(timeout=60)
        print(f"  cancelled in {times[-1]:.2f} s", file=sys.stderr)
        assert read_report(made.settings.runs, run_id).status == "cancelled"
    worst = sorted(times)[-1]
    return Row(
        name=f"cancel to container gone, worst of {cancels}",
        ours=worst,
        baseline=GONE_S,
        ratio=worst / GONE_S,
        target="p99 at most 5 s",
    )


class _machine:  # noqa: N801 - used as a function
    """This process with the stage's environment: it asks the same home and engine."""

    def __init__(self, made: Stage) -> None:
        self._made = made
        self._before = dict(os.environ)

    def __enter__(self) -> None:
        os.environ.clear()
        os.environ.update(self._made.env)

    def __exit__(self, *_: object) -> None:
        os.environ.clear()
        os.environ.update(self._before)


def _count(name: str, seen: list[After], counts: Callable[[After], bool], wanted: int) -> Row:
    found = sum(map(counts, seen))
    return Row(
        name=name,
        ours=found,
        baseline=len(seen),
        ratio=found / max(1, len(seen)),
        target=f"{wanted} of {len(seen)}",
        unit="runs",
    )


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    for row in rows(numbers[0] if numbers else KILLS, tuple(w for w in sys.argv[1:] if w in _KILL)):
        print(row)
