"""The native agent against mini-swe-agent, and the start of each other agent against by hand."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.agents import starts
from benchmarks.gateway.rows import start
from benchmarks.row import Row
from sandbox.engine import DockerEngine
from sandbox.images import BASE_RECIPE, ensure_image

_PLACE = Path(__file__).parent
_ENVIRONMENT = _PLACE.parents[1] / ".venv" / "bench-agents"


class Run(NamedTuple):
    """Seconds of one step, and of everything from the start of the process to its end."""

    step_s: float
    wall_s: float


def rows() -> Iterator[Row]:
    """All figures. Each side runs several times, in turns; the better run counts."""
    yield from starts.rows()
    image = ensure_image(DockerEngine(), BASE_RECIPE, print)
    python = _environment()
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        _, url = start(stack, "benchmarks.gateway.process", {})
        ours_argv = [sys.executable, "-m", "benchmarks.agents.ours", url, image, folder]
        mini_argv = [str(python), str(_PLACE / "mini.py"), image]
        pairs = [(_timed(ours_argv), _timed(mini_argv)) for _ in range(2)]
    ours, mini = (min(runs, key=lambda run: run.wall_s) for runs in zip(*pairs, strict=True))
    for name, mine, theirs, target in (
        ("a step of an agent, beside mini-swe-agent", ours.step_s, mini.step_s, "at most 0.5"),
        ("ten tasks, beside mini-swe-agent", ours.wall_s, mini.wall_s, "at most 1.0"),
    ):
        yield Row(name=name, ours=mine, baseline=theirs, ratio=mine / theirs, target=target)


def _timed(argv: list[str]) -> Run:
    began = time.monotonic()
    silent = {**os.environ, "MSWEA_SILENT_STARTUP": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(argv, env=silent, stdout=subprocess.PIPE, check=True)
    wall_s = time.monotonic() - began
    return Run(median(json.loads(done.stdout.splitlines()[-1])), wall_s)


def _environment() -> Path:
    """The Python that has mini-swe-agent, made when it is not there."""
    python = _ENVIRONMENT / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", _ENVIRONMENT], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--quiet"]
    subprocess.run([*pip, "--requirement", _PLACE / "requirements.txt"], check=True)
    return python
