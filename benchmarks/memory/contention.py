"""Eight processes, a thousand mixed operations each; then writers killed at random moments."""

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.row import Row
from memory.playbooks.library import Library, open_library
from memory.types import PlaybookContent, PlaybookQuery
from tests.support.memory import WordEmbedder

PROCESSES = 8
OPERATIONS = 1_000
KILLED = 20


def rows() -> Iterator[Row]:
    """Lost operations of both kinds; every told one must be there."""
    yield _row("lost by 8 processes x 1,000 operations", *_mixed())
    yield _row("lost by 20 writers killed -9", *_killed())


def _mixed() -> tuple[int, int, float]:
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        shared = _start(Path(folder))
        began = time.perf_counter()
        workers = [_worker(Path(folder), n, OPERATIONS, shared) for n in range(PROCESSES)]
        told = "".join(worker.communicate()[0] for worker in workers)
        took = time.perf_counter() - began
        assert len(told.splitlines()) == PROCESSES * OPERATIONS, "a worker failed"
        return *_lost(Path(folder), told, shared, spare=0), took


def _killed() -> tuple[int, int, float]:
    lot = random.Random(1)  # noqa: S311 - the same lots each time, no secret
    told = ""
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        shared = _start(Path(folder))
        began = time.perf_counter()
        for number in range(KILLED // 2):
            pair = [_worker(Path(folder), 100 + 2 * number + n, 10_000, shared) for n in (0, 1)]
            for worker in pair:
                assert worker.stdout is not None
                told += "".join(worker.stdout.readline() for _ in range(lot.randint(5, 25)))
            for worker in pair:
                worker.kill()
            told += "".join(worker.communicate()[0] for worker in pair)
        took = time.perf_counter() - began
        whole = "".join(line for line in told.splitlines(keepends=True) if line.endswith("\n"))
        return *_lost(Path(folder), whole, shared, spare=KILLED), took


def _row(name: str, lost: int, told: int, took: float) -> Row:
    note = f"baseline: operations told as done; {told / took:.0f} a second"
    return Row(
        name=f"memory {name}",
        ours=lost,
        baseline=told,
        ratio=lost / told,
        target="0",
        unit="ops",
        note=note,
    )


def _open(folder: Path) -> AbstractContextManager[Library]:
    embedder = WordEmbedder().embedder
    return open_library(folder / "harness.db", index=folder / "index", embedder=embedder)


def _start(folder: Path) -> str:
    with _open(folder) as library:
        return library.create(PlaybookContent(title="shared by all")).id


def _worker(folder: Path, number: int, rounds: int, shared: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "tests.support.busy_store", str(folder / "harness.db")]
    argv += [str(folder / "index"), str(number), str(rounds), shared]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def _lost(folder: Path, told: str, shared: str, *, spare: int) -> tuple[int, int]:
    """What was told as done and is not there; a killed process may have done one more than told."""
    lines = told.splitlines()
    with _open(folder) as library:
        successes = library.get(shared).counts.successes
        version = library.get(shared).version - 1
        lost = _difference(successes, lines.count("recorded"), spare)
        lost += _difference(version, lines.count("updated"), spare)
        for line in lines:
            if line.startswith("created"):
                _, id_, name = line.split()
                found = library.search(PlaybookQuery(text=f"{name} alpha", limit=3))
                lost += id_ not in [hit.playbook.id for hit in found]
        lost += sum(not finding.ok for finding in library.doctor())
    return lost, len(lines)


def _difference(there: int, told: int, spare: int) -> int:
    return max(0, told - there) + max(0, there - told - spare)
