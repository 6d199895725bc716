"""The same commands through other people's sandboxes, on the same image."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.row import Row
from benchmarks.sandbox.speed import SPEC, TRUE, per_second, ratio_row, timed
from sandbox.container import DockerSandbox
from sandbox.engine import Engine
from sandbox.images import BASE_IMAGE

_PLACE = Path(__file__).parent
_REQUIREMENTS = _PLACE.parent / "requirements.txt"
_ENVIRONMENT = _PLACE.parents[2] / ".venv" / "bench"
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
    names = ("start_ms", "exec_ms", "per_second")
    start, command, rate = (float(theirs.get(name, "nan")) for name in names)
    refused = theirs.get("refused")
    note = f"it does not run here: {refused}" if refused else ""
    engine, opened = Engine(), list[DockerSandbox]()
    try:
        starts = [timed(lambda: opened.append(DockerSandbox.start(engine, SPEC))) for _ in range(3)]
        sandbox = opened[-1]
        one = [timed(lambda: sandbox.exec(TRUE)) for _ in range(100)]
        many = per_second(lambda: sandbox.exec(TRUE), 800)
    finally:
        for sandbox in opened:
            sandbox.teardown()
    for row in (
        ratio_row(f"start, beside {peer}", median(starts), start, "below 1", "ms"),
        ratio_row(f"exec p50, beside {peer}", median(one), command, "below 1", "ms"),
        ratio_row(f"exec, 8 at once, beside {peer}", many, rate, "above 1", "/s"),
    ):
        yield replace(row, note=note)


def _environment() -> Path:
    """The Python of the environment that holds the others, made when it is not there."""
    python = _ENVIRONMENT / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", _ENVIRONMENT], check=True)
    pip: list[str] = [str(python), "-m", "pip", "install", "--quiet", "--quiet", "--quiet"]
    subprocess.run([*pip, "--requirement", _REQUIREMENTS], check=True)
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
