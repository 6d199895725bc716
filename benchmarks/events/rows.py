"""Append and verify, against SQLite doing the least that such a log could ask of it."""

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from benchmarks.row import Row
from contracts.entity import Entity, Label
from memory.database import open_database
from policy.log.event_log import EventLog
from policy.log.events import Draft
from policy.log.head import HeadFile
from policy.log.verify import verify

_APPENDS = 1_000
_EVENTS = 20_000
_ROUNDS = 5


def rows() -> Iterator[Row]:
    """About half a minute."""
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        place = Path(folder)
        engine = open_database(place / "harness.db")
        log = EventLog(engine=engine, replica="bench", head_file=HeadFile(place / "events.head"))
        yield from _append(log, place)
        yield from _verify(log, place / "harness.db")
        engine.dispose()


def _append(log: EventLog, place: Path) -> Iterator[Row]:
    bare = sqlite3.connect(place / "bare.db", isolation_level=None)
    bare.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
        "CREATE TABLE events (id TEXT PRIMARY KEY, line TEXT)"
    )
    ours: list[_Took] = []
    theirs: list[_Took] = []
    for number in range(_APPENDS):
        draft = _draft(number)
        ours.append(_timed(partial(log.append, [draft])))
        line = json.dumps({"number": number, "text": "x" * 400})
        name = sha256(line.encode()).hexdigest()
        theirs.append(
            _timed(partial(bare.execute, "INSERT INTO events VALUES (?, ?)", (name, line)))
        )
    bare.close()
    mine, other = (median(took.wall for took in all_of) for all_of in (ours, theirs))
    busy = median(took.processor for took in ours)
    slow = quantiles([took.wall for took in ours], n=100)[98]
    yield Row(
        name="event append, p50",
        ours=mine,
        baseline=other,
        ratio=mine / other,
        target="at most 0.001 s",
        note=f"p99 {slow * 1e3:.2f} ms, processor {busy * 1e3:.2f} ms; against one bare INSERT",
    )


def _verify(log: EventLog, path: Path) -> Iterator[Row]:
    for start in range(0, _EVENTS, 500):
        log.append([_draft(_APPENDS + start + number) for number in range(500)])
    number = _EVENTS + _APPENDS
    best = min(_timed(lambda: _must_be_ok(log)) for _ in range(_ROUNDS))
    ours = best.wall / number
    theirs = min(_timed(lambda: _read_and_hash(path)) for _ in range(_ROUNDS)).wall / number
    yield Row(
        name="event verify, each",
        ours=ours,
        baseline=theirs,
        ratio=ours / theirs,
        target="at most 2e-05 s",
        note=f"{1 / ours:,.0f} events/s, {number / best.processor:,.0f} by processor time, with "
        "entities and links; against reading and hashing",
    )


def _draft(number: int) -> Draft:
    """A node's result, made of the one before."""
    taint = Label(taint=frozenset({"repo:bench"}))
    before = Entity(content={"text": f"{number - 1} {'x' * 200}"}, label=taint, origin="node")
    made = Entity(content={"text": f"{number} {'x' * 200}"}, label=taint, origin="node")
    return Draft(
        kind="node",
        run_id="bench",
        body={"node": "test", "status": "success", "duration_ms": number},
        consumes=(before.id,) if number else (),
        produces=(made,),
    )


def _must_be_ok(log: EventLog) -> None:
    found = verify(log)
    if not found.ok:
        raise ValueError(f"the log of the benchmark is not whole: {found.findings[0]}")


def _read_and_hash(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        for name, line in connection.execute("SELECT id, line FROM events"):
            if sha256(line.encode()).hexdigest() != name:
                raise ValueError(name)


class _Took(NamedTuple):
    """Seconds; on a busy machine `processor` says what it would be on an idle one."""

    wall: float
    processor: float


def _timed(work: Callable[[], object]) -> _Took:
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return _Took(time.perf_counter() - wall, time.process_time() - processor)
