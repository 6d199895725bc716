"""A whole run, its start, and the command line's."""

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import NamedTuple

from app.demo.request import make_repository
from benchmarks.row import Row
from flows.config.settings import Settings
from flows.services import prefect_server
from sandbox.images import BASE_IMAGE

ROUNDS = 3
_HERE = Path(__file__).parent
_HARNESS = (sys.executable, "-m", "app")


def rows() -> Iterator[Row]:
    """Measure with a server of our own that is already up; about a minute."""
    with TemporaryDirectory(prefix="harness-bench-") as folder:
        place = Path(folder)
        settings = Settings(home=place / "home", server_port=0)
        api = prefect_server.server_daemon(settings).up().url
        try:
            yield from _runs(make_repository(place / "repository"), place / "home", api)
        finally:
            prefect_server.server_daemon(settings).down()
    yield _help()


def _runs(repository: Path, home: Path, api: str) -> Iterator[Row]:
    blueprint = f"{_HERE / 'ten_nodes.py'}:ten_nodes"
    ours = (*_HARNESS, "run", blueprint, "--repo", str(repository))
    bare = (sys.executable, str(_HERE / "bare_flow.py"), BASE_IMAGE)
    env = {**os.environ, "HARNESS_HOME": str(home), "PREFECT_API_URL": api}
    whole, start = [], []
    for _ in range(ROUNDS + 1):
        a = _timed(ours, env, "noop-1: started")
        b = _timed(bare, env, "started")
        whole.append((a.whole_s, b.whole_s))
        start.append((a.start_s, b.start_s))
    yield _row("ten no-op nodes, whole run", whole, "at most 1.3")
    row = _row("harness run to first node started", start, "")
    bound = 1.5 * row.baseline + 1.0
    yield replace(row, target=f"at most 1.5 x + 1 s = {bound:.2f} s")


def _help() -> Row:
    times = []
    for _ in range(ROUNDS + 1):
        began = monotonic()
        subprocess.run((*_HARNESS, "--help"), stdout=subprocess.DEVNULL, check=True)
        ours = monotonic() - began
        began = monotonic()
        subprocess.run((sys.executable, "-c", "import typer"), check=True)
        times.append((ours, monotonic() - began))
    return _row("harness --help (baseline: import typer)", times, "at most 0.3 s")


class _Timed(NamedTuple):
    whole_s: float
    start_s: float


def _timed(argv: Sequence[str], env: Mapping[str, str], mark: str) -> _Timed:
    """Run a process; when it said `mark` on a line of its own, and when it ended."""
    began = monotonic()
    start_s = 0.0
    with subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            if line.strip() == mark:
                start_s = monotonic() - began
    if process.returncode or not start_s:
        raise RuntimeError(f"{argv!r} ended with {process.returncode}, started: {bool(start_s)}")
    return _Timed(monotonic() - began, start_s)


def _row(name: str, times: Sequence[tuple[float, float]], target: str) -> Row:
    """Medians of all rounds but the first, which warms the caches."""
    ours = statistics.median(a for a, _ in times[1:])
    baseline = statistics.median(b for _, b in times[1:])
    return Row(name=name, ours=ours, baseline=baseline, ratio=ours / baseline, target=target)
