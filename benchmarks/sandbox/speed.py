"""How long one command, one start, one take and one long output need."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.row import Row
from benchmarks.sandbox.docker_api import DockerExec
from contracts.sandbox import Command
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.spec import SandboxSpec, create_flags

TRUE = Command(argv=("true",))
SPEC = SandboxSpec(image=BASE_IMAGE, owner="harness-bench", run_id="bench")
OUTPUT = 500_000_000
TOGETHER = 20


def rows() -> Iterator[Row]:
    """One command, eight at once, a start, a take, a long output."""
    engine = DockerEngine()
    with DockerSandbox.start(engine, SPEC) as sandbox:
        yield from _one(sandbox)
        yield _eight(sandbox)
        yield from _output(sandbox)
    yield from _starts(engine)


def timed(act: Callable[[], object]) -> float:
    """Milliseconds."""
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


def ratio_row(name: str, ours: float, baseline: float, target: str, unit: str) -> Row:
    """A row whose ratio is ours by the baseline's."""
    return Row(
        name=name, ours=ours, baseline=baseline, ratio=ours / baseline, target=target, unit=unit
    )


def p99(times: Sequence[float]) -> float:
    """The time that 99 of 100 did not exceed."""
    return sorted(times)[len(times) * 99 // 100]


def per_second(act: Callable[[], object], count: int, threads: int = 8) -> float:
    """How often a second, from that many threads."""
    with ThreadPoolExecutor(threads) as pool:
        spent = timed(lambda: list(pool.map(lambda _: act(), range(count))))
    return count / spent * 1000


def _one(sandbox: DockerSandbox) -> Iterator[Row]:
    """Both in turn, so that what else runs here slows both."""
    by_api, ours, theirs = DockerExec(sandbox.container_id), list[float](), list[float]()
    for _ in range(40):
        theirs.append(timed(by_api))
        ours += [timed(lambda: sandbox.exec(TRUE)) for _ in range(10)]
    yield ratio_row("exec p50", median(ours), median(theirs), "at most 0.06", "ms")
    yield ratio_row("exec p99", p99(ours), p99(theirs), "at most 0.3", "ms")


def _eight(sandbox: DockerSandbox) -> Row:
    """In turn as well: the median of each."""
    by_api, ours, theirs = DockerExec(sandbox.container_id), list[float](), list[float]()
    for _ in range(5):
        theirs.append(per_second(by_api, 40))
        ours.append(per_second(lambda: sandbox.exec(TRUE), 600))
    return ratio_row("exec, 8 at once", median(ours), median(theirs), "at least 20", "/s")


def _output(sandbox: DockerSandbox) -> Iterator[Row]:
    before, most = _resident_mb(), [0.0]

    def note(_stream: str, _data: bytes) -> None:
        most[0] = max(most[0], _resident_mb())

    command = Command(argv=("head", "-c", str(OUTPUT), "/dev/zero"))
    spent = timed(lambda: sandbox.exec(command))
    assert sandbox.exec(command, note).stdout_size == OUTPUT
    speed, more = OUTPUT / spent / 1000, most[0] - before
    yield ratio_row("500 MB of output, against 100 MB/s", speed, 100, "at least 1", "MB/s")
    yield ratio_row("… memory for it, against 64 MiB", more, 64, "below 1", "MiB")


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _starts(engine: DockerEngine) -> Iterator[Row]:
    bare, fresh = list[float](), list[float]()
    for _ in range(15):
        bare.append(_bare(engine))
        fresh.append(_opened(lambda: DockerSandbox.start(engine, SPEC)))
    yield _at_once(engine)
    yield ratio_row(
        "fresh sandbox against create + start", median(fresh), median(bare), "at most 1.15", "ms"
    )


def _at_once(engine: DockerEngine) -> Row:
    """As many sandboxes at once as bare containers, each by a thread of its own."""
    with ThreadPoolExecutor(TOGETHER) as threads, ExitStack() as stack:
        made = list[str]()
        theirs = timed(
            lambda: made.extend(threads.map(lambda _: _created(engine), range(TOGETHER)))
        )
        list(threads.map(engine.remove, made))
        opened = list[DockerSandbox]()
        start = partial(DockerSandbox.start, engine, SPEC)
        ours = timed(lambda: opened.extend(threads.map(lambda _: start(), range(TOGETHER))))
        for sandbox in opened:
            stack.callback(sandbox.teardown)
    name = f"{TOGETHER} sandboxes at once, against create + start"
    return ratio_row(name, ours, theirs, "at most 1.2", "ms")


def _created(engine: DockerEngine) -> str:
    container = engine.create({**create_flags(SPEC), "network_disabled": False})
    engine.start(container)
    return container


def _bare(engine: DockerEngine) -> float:
    """Create and start of such a container, and nothing else; its network is `none`, as usual."""
    made: list[str] = []
    spent = timed(lambda: made.append(_created(engine)))
    engine.remove(made[0])
    return spent


def _opened(open_one: Callable[[], DockerSandbox]) -> float:
    found: list[DockerSandbox] = []
    spent = timed(lambda: found.append(open_one()))
    found[0].teardown()
    return spent
