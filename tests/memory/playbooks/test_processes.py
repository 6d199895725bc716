"""Many processes on one store, some killed in the middle or forked: nothing is lost."""

import fcntl
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NamedTuple

from memory.playbooks.library import Library, open_library
from memory.types import Execution, PlaybookContent, PlaybookQuery
from tests.support.busy_store import work
from tests.support.memory import Open, WordEmbedder

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["chromadb", "alembic.command", "pytest", "tests.support.busy_store"])
# Each is a process of its own, with none of ours open, and need not import it all again.


class Worker(NamedTuple):
    """A process, and what it tells."""

    process: ForkServerProcess
    told: Connection

    def lines(self) -> Iterator[str]:
        """What it tells, until it ends or was killed in the middle of a word."""
        with suppress(EOFError, OSError):
            while True:
                yield self.told.recv_bytes().decode()


def start(do: Callable[..., None], *given: object) -> Worker:
    """A process that does this; it is also given where to tell what it did."""
    ours, its = _FORKS.Pipe(duplex=False)
    process = _FORKS.Process(target=do, args=(*given, its))
    process.start()
    its.close()
    return Worker(process, ours)


def be_busy(
    database: str | Path, index: Path, worker: int, rounds: int, shared: str, its: Connection
) -> None:
    work(str(database), index, worker, rounds, shared, lambda line: its.send_bytes(line.encode()))


def open_new(database: str | Path, index: Path, its: Connection) -> None:
    with open_library(database, index=index, embedder=WordEmbedder().embedder) as library:
        library.create(PlaybookContent(title="alpha"))
        its.send_bytes(str(len(library.search(PlaybookQuery(text="alpha")))).encode())


def check(library: Library, lines: list[str], shared: str, *, killed: int = 0) -> None:
    """Check that every reported operation is stored; a killed process may have one more."""
    counts = library.get(shared).counts
    recorded = lines.count("recorded")
    assert recorded <= counts.successes <= recorded + killed
    assert len(library.list_executions(shared)) == counts.total
    updated = lines.count("updated")
    assert updated + 1 <= library.get(shared).version <= updated + 1 + killed
    for line in lines:
        if line.startswith("created"):
            _, id_, name = line.split()
            hits = library.search(PlaybookQuery(text=f"{name} alpha", limit=3))
            assert id_ in [hit.playbook.id for hit in hits]
    assert [finding for finding in library.doctor() if not finding.ok] == []


def test_eight_processes_lose_no_count_and_no_playbook(
    opened: Open, database: str | Path, tmp_path: Path
) -> None:
    with opened() as library:
        shared = library.create(PlaybookContent(title="shared by all")).id
    index = tmp_path / "index"
    workers = [start(be_busy, database, index, n, 12, shared) for n in range(8)]
    told = [line for worker in workers for line in worker.lines()]
    assert len(told) == 8 * 12
    with opened() as library:
        check(library, told, shared)


def test_killed_writers_leave_a_store_that_is_whole(
    opened: Open, database: str | Path, tmp_path: Path
) -> None:
    with opened() as library:
        shared = library.create(PlaybookContent(title="shared by all")).id
    told: list[str] = []
    for attempt in range(3):
        numbers = (10 * attempt, 10 * attempt + 1)
        workers = [start(be_busy, database, tmp_path / "index", n, 900, shared) for n in numbers]
        for worker in workers:
            told += islice(worker.lines(), 5 + attempt)
        for worker in workers:
            worker.process.kill()
            told += worker.lines()
    with opened() as library:
        check(library, told, shared, killed=6)


def test_eight_processes_open_a_new_store_at_once(no_tables: str | Path, tmp_path: Path) -> None:
    workers = [start(open_new, no_tables, tmp_path / "index") for _ in range(8)]
    assert all([int(line) for line in worker.lines()] >= [1] for worker in workers)
    for worker in workers:
        worker.process.join()
        assert worker.process.exitcode == 0


def test_a_sqlite_writer_waits_until_no_other_process_can_copy_the_log(
    on_sqlite: Library, tmp_path: Path
) -> None:
    made = on_sqlite.create(PlaybookContent(title="shared"))
    execution = Execution(playbook_id=made.id, run_id="r", outcome="success")
    done = threading.Event()

    def record() -> None:
        on_sqlite.record_execution(execution)
        done.set()

    with (tmp_path / "harness.db.write.lock").open("a") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        writer = threading.Thread(target=record)
        writer.start()
        assert not done.wait(0.2)
        assert on_sqlite.get(made.id).counts.total == 0  # who only reads does not wait
    writer.join()
    assert on_sqlite.get(made.id).counts.total == 1


def test_threads_share_one_library(on_sqlite: Library) -> None:
    shared = on_sqlite.create(PlaybookContent(title="shared"))
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            made = on_sqlite.create(PlaybookContent(title=f"thread{number} alpha"))
            hits = on_sqlite.search(PlaybookQuery(text=f"thread{number} alpha", limit=3))
            assert made.id in [hit.playbook.id for hit in hits]
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert on_sqlite.get(shared.id)


FORK = """
import os, sys
from pathlib import Path
from memory.playbooks.library import open_library
from memory.types import PlaybookContent, Execution, PlaybookQuery
from tests.support.memory import WordEmbedder

def found(library):
    hits = library.search(PlaybookQuery(text="rotate keys", limit=3))
    return [sorted(hit.arm_ranks) for hit in hits]

folder = Path(sys.argv[1])
embedder = WordEmbedder().embedder
with open_library(folder / "harness.db", index=folder / "index", embedder=embedder) as library:
    made = library.create(PlaybookContent(title="rotate keys"))
    print("parent", found(library), flush=True)
    child = os.fork()
    if not child:
        print("child", found(library), flush=True)
        library.record_execution(Execution(playbook_id=made.id, run_id="c", outcome="success"))
        os._exit(0)  # as multiprocessing ends its own: Chroma never lets a forked one go
    else:
        os.waitpid(child, 0)
        library.record_execution(Execution(playbook_id=made.id, run_id="p", outcome="success"))
        print("counts", library.get(made.id).counts.successes, flush=True)
        print("parent", found(library), flush=True)
"""


def test_a_forked_process_searches_by_words_without_a_hang_or_damage(tmp_path: Path) -> None:
    argv = (sys.executable, "-c", FORK, str(tmp_path))
    seen = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert seen.stdout.splitlines() == [
        "parent [['vectors', 'words']]",
        "child [['words']]",
        "counts 2",
        "parent [['vectors', 'words']]",
    ]
    assert seen.stderr.count("searching by words only: this process was forked") == 1
