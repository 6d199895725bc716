"""What is left of a run after a kill.

`python -m benchmarks.run chaos 100` kills a hundred times, each kind in its turn;
`python -m benchmarks.chaos.rows 30 worker chroma` only these kinds.
"""

import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import cycle, islice
from multiprocessing import get_context
from secrets import token_hex
from time import monotonic, sleep
from uuid import UUID

from benchmarks.chaos.kills import KILLS, SIX
from benchmarks.chaos.stage import Stage, stage, wait_for
from benchmarks.row import Row
from flows.execution.wiring import sandbox_owner
from flows.recall.library import configured_library
from flows.runs.home import RECORD
from flows.runs.run_record import read_record
from flows.services.prefect_server import prefect_client, server_daemon
from sandbox.engine import DockerEngine
from sandbox.reap import list_sandboxes

SIZE = 14
PARALLEL = 2
GONE_S = 5.0
STATE_S = 60.0
"""How long the flow run may have another state than its run."""
REACH = {"worker": 1.5, "machine": 1.5}
"""How far moments reach, in times of a run of the command line: a worker first takes it."""

BOUND_S = 5400.0
"""No kill begins later than this; the rows then tell of fewer."""


@dataclass(frozen=True, kw_only=True)
class After:
    """What one kill led to."""

    what: str
    run_id: str
    at_s: float
    tree: bool
    again: tuple[str, ...]
    containers: int
    executions: int
    is_completed: bool

    @property
    def right(self) -> bool:
        is_whole = self.tree and self.is_completed and self.executions == 1
        return is_whole and not self.again and not self.containers


def rows(size: int = SIZE, kinds: tuple[str, ...] = tuple(KILLS)) -> Iterator[Row]:
    """Kill so often, each kind in its turn, on two stages at once; about fifteen seconds a kill."""
    turns = list(islice(cycle(kinds), size))
    shares = [turns[first::PARALLEL] for first in range(PARALLEL)]
    with ProcessPoolExecutor(PARALLEL, mp_context=get_context("spawn")) as pool:
        seen = [after for done in pool.map(disturbed, shares, range(PARALLEL)) for after in done]
    yield _count("chaos: runs that end as undisturbed", seen, lambda a: a.tree, len(seen))
    yield _count("chaos: finished nodes run again", seen, lambda a: bool(a.again), 0)
    yield _count("chaos: containers left", seen, lambda a: bool(a.containers), 0)
    yield _count("chaos: not recorded once", seen, lambda a: a.executions != 1, 0)
    yield _count("chaos: states wrong in Prefect", seen, lambda a: not a.is_completed, 0)


def disturbed(
    kinds: list[str], seed: int = 0, on: Callable[..., AbstractContextManager[Stage]] = stage
) -> list[After]:
    """Kill one of each in turn, on a stage of their own; what each led to is told as it is."""
    seen = list[After]()
    began = monotonic()
    rng = random.Random(seed)  # noqa: S311 - moments, the same ones each time
    with on(with_engine="engine" in kinds) as made:
        _whole(made)  # the first run brings the gateway up
        tree, took_s = _whole(made)
        for number, kind in enumerate(kinds, 1):
            if monotonic() - began > BOUND_S:
                break
            seen.append(
                after := _one(made, kind, rng.uniform(0, REACH.get(kind, 1) * took_s), tree)
            )
            told = "" if after.right else f"WRONG\n{_last_said(made)}"
            print(f"  {number} of {len(kinds)}: {after} {told}", file=sys.stderr, flush=True)
    return seen


def _whole(made: Stage) -> tuple[str, float]:
    """An undisturbed run: its tree, and how long it took from the first sign of it."""
    run_id = token_hex(4)
    with made.start(run_id, SIX) as process:
        wait_for(made.settings.runs / run_id / RECORD, process)
        began = monotonic()
        if process.wait(timeout=300):
            raise RuntimeError(f"an undisturbed run failed: {_last_said(made)}")
    return made.tree(run_id), monotonic() - began


def _one(made: Stage, kind: str, at_s: float, tree: str) -> After:
    death = KILLS[kind](made, at_s)
    since = made.log.read_text().splitlines()[death.noted :]
    return After(
        what=kind,
        run_id=death.run_id,
        at_s=round(at_s, 2),
        tree=made.tree(death.run_id) == tree,
        again=tuple(name for name in since if name in death.finished),
        containers=_containers(made),
        executions=_executions(death.run_id),
        is_completed=_is_completed(made, death.run_id),
    )


def _containers(made: Stage) -> int:
    """Containers of the stage that are still there after the time they may take to go."""
    give_up = monotonic() + GONE_S
    while found := len(list_sandboxes(DockerEngine(), sandbox_owner(made.settings))):
        if monotonic() > give_up:
            break
        sleep(0.1)
    return found


def _is_completed(made: Stage, run_id: str) -> bool:
    """Whether the flow run of a run that has ended is completed, or is so in time."""
    record = read_record(made.settings.runs / run_id)
    if record is None or record.flow_run_id is None:
        return False
    give_up = monotonic() + STATE_S
    with prefect_client(server_daemon(made.settings).up().url) as client:
        while True:
            state = client.read_flow_run(UUID(record.flow_run_id)).state
            is_completed = state is not None and state.is_completed()
            if is_completed or monotonic() > give_up:
                return is_completed
            sleep(0.5)


def _executions(run_id: str) -> int:
    with configured_library() as opened:
        return sum(e.run_id == run_id for e in opened.list_executions())


def _last_said(made: Stage) -> str:
    return made.said.read_text()[-2000:]


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
    chosen = tuple(word for word in sys.argv[1:] if word in KILLS) or tuple(KILLS)
    for row in rows(numbers[0] if numbers else SIZE, chosen):
        print(row)
