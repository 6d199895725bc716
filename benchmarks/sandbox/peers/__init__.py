"""The same commands through other people's sandboxes, on the same image."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import nan
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.row import Row
from benchmarks.sandbox.speed import SPEC, TRUE, per_second, ratio_row, timed
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE

_PLACE = Path(__file__).parent
_ROOT = _PLACE.parents[2]
_ENVIRONMENT = _ROOT / ".venv" / "bench"
_IMAGE = "harness-bench-swe-rex:latest"
_DOCKERFILE = _PLACE / "swe_rex.Dockerfile"


def rows() -> Iterator[Row]:
    """Each of them beside ours, measured right after it."""
    python = _environment()
    image = _swe_rex_image(python)
    with _network() as network:
        found = _ask(python, "swe_rex_sandbox.py", image, network)
    subprocess.run(["docker", "image", "rm", image], check=True, stdout=subprocess.DEVNULL)
    yield from _beside("SWE-ReX", found)
    yield from _beside("inspect-ai", _ask(python, "inspect_sandbox.py", BASE_IMAGE))


def _beside(peer: str, theirs: Mapping[str, float | str]) -> Iterator[Row]:
    if "refused" in theirs:
        note = f"it does not run here: {theirs['refused']}"
        yield Row(name=f"beside {peer}", ours=nan, baseline=nan, ratio=nan, target="-", note=note)
        return
    names = ("start_ms", "exec_ms", "per_second")
    start, command, rate = (float(theirs[name]) for name in names)
    engine, opened = DockerEngine(), list[DockerSandbox]()
    try:
        starts = [timed(lambda: opened.append(DockerSandbox.start(engine, SPEC))) for _ in range(3)]
        sandbox = opened[-1]
        one = [timed(lambda: sandbox.exec(TRUE)) for _ in range(100)]
        many = per_second(lambda: sandbox.exec(TRUE), 800)
    finally:
        for sandbox in opened:
            sandbox.teardown()
    yield ratio_row(f"start, beside {peer}", median(starts), start, "below 1", "ms")
    yield ratio_row(f"exec p50, beside {peer}", median(one), command, "below 1", "ms")
    yield ratio_row(f"exec, 8 at once, beside {peer}", many, rate, "above 1", "/s")


def _environment() -> Path:
    """The Python of the environment that holds the others, made when it is not there."""
    python = _ENVIRONMENT / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", _ENVIRONMENT], check=True)
    pip: list[str] = [str(python), "-m", "pip", "install", "--quiet", "--quiet", "--quiet"]
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    subprocess.run([*pip, *project["optional-dependencies"]["bench"]], check=True)
    return python


def _swe_rex_image(python: Path) -> str:
    """Ours with SWE-ReX in it, as it wants; its packages are copied, so nothing is fetched."""
    with TemporaryDirectory() as place:
        found = subprocess.check_output(
            [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
        )
        shutil.copytree(found.strip(), Path(place, "packages"))
        shutil.copy(_DOCKERFILE, place)
        argv = [
            "docker",
            "build",
            "--quiet",
            "--network",
            "none",
            "--tag",
            _IMAGE,
            "--file",
            str(_DOCKERFILE),
            place,
        ]
        subprocess.run([*argv, "--build-arg", f"BASE={BASE_IMAGE}"], check=True)
    return _IMAGE


def _ask(python: Path, program: str, *arguments: str) -> Mapping[str, float | str]:
    said = subprocess.check_output(
        [str(python), str(_PLACE / program), *arguments], cwd=_PLACE, text=True
    )
    found: Mapping[str, float | str] = json.loads(said.splitlines()[-1])
    return found


@contextmanager
def _network() -> Iterator[str]:
    """A bridge of our own, so that a published port is not in anybody's way."""
    name = f"harness-bench-{os.getpid()}"
    subprocess.run(["docker", "network", "create", name], check=True, stdout=subprocess.DEVNULL)
    try:
        yield name
    finally:
        subprocess.run(["docker", "network", "rm", name], check=True, stdout=subprocess.DEVNULL)
