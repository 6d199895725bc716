"""A Python project of ten dependencies: `harness run` beside the same commands in `docker run`."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic

from benchmarks.field.fetch import FieldProject
from benchmarks.field.measure import fix_program, fix_tests, harness
from benchmarks.row import Row
from flows.config.package_clients import client_settings
from flows.config.settings import Settings
from flows.services import prefect_server
from sandbox.engine import DockerEngine
from sandbox.git import OURS, RuledGit
from sandbox.images import BASE_RECIPE, ensure_image
from sandbox.indexes import certificates

ROUNDS = 3
_DEPENDENCIES = (
    "fastapi==0.115.6", "httpx==0.28.1", "jinja2==3.1.5", "numpy==2.2.1", "pandas==2.2.3",
    "pydantic==2.10.4", "pyyaml==6.0.2", "requests==2.32.3", "rich==13.9.4", "sqlalchemy==2.0.36",
)  # fmt: skip
_PROJECT = FieldProject(
    name="ten",
    version="1.0",
    source="pypi",
    language="Python",
    file="ten/__init__.py",
    right="return a + b",
    wrong="return a - b",
)
_FILES = {
    "pyproject.toml": (
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        f'[project]\nname = "ten"\nversion = "1.0"\ndependencies = {list(_DEPENDENCIES)}\n'
    ),
    "ten/__init__.py": "import fastapi, pandas, sqlalchemy\n\n\ndef add(a, b):\n    return a - b\n",
    "tests/test_add.py": "from ten import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
}
_PIP_OPTIONS = ("index-url", "trusted-host", "proxy")


def rows() -> Iterator[Row]:
    """Measure both in turns; the packages come from the index that this machine's pip uses."""
    image = ensure_image(DockerEngine(), BASE_RECIPE, lambda _: None)
    typed, first, second = [], [], []
    for _ in range(ROUNDS):
        with TemporaryDirectory(prefix="harness-beside-") as folder:
            repository = _make_repository(Path(folder, "ten"))
            typed.append(_in_docker_run(image, repository, Path(folder, "ca.pem")))
            cold, again = _in_harness(repository, Path(folder, "home"))
            first.append(cold)
            second.append(again)
    baseline = median(typed)
    for name, ours, target in (("first", first, "at most 1.3"), ("second", second, "at most 0.4")):
        yield Row(
            name=f"{name} run, ten dependencies, beside docker run",
            ours=median(ours),
            baseline=baseline,
            ratio=median(ours) / baseline,
            target=target,
        )


def _make_repository(place: Path) -> Path:
    for name, text in _FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    git = RuledGit(place, OURS)
    git.init("--quiet", "--initial-branch=main")
    git.add("--all")
    git(c=["user.name=Field", "user.email=field@localhost"]).commit("--quiet", "-m", "Ten")
    return place


def _in_docker_run(image: str, repository: Path, bundle: Path) -> float:
    """Return the seconds of install, tests, fix and tests, as a person would type them."""
    clients = client_settings()
    options = {name: clients.options["pip"].get(name) for name in _PIP_OPTIONS}
    env = [f"PIP_{k.upper().replace('-', '_')}={value}" for k, value in options.items() if value]
    bundle.write_bytes(certificates(clients.certificates))
    trust = ("--env=PIP_CERT=/ca.pem", f"--volume={bundle}:/ca.pem:ro")
    line = (
        "cp -r /source ~/work && cd ~/work && "
        "python3 -m pip install --quiet --no-warn-script-location --no-cache-dir --user "
        "--break-system-packages -e . && "
        f"! python3 -m pytest && {fix_program(_PROJECT)} && python3 -m pytest"
    )
    began = monotonic()
    subprocess.run(
        (
            "docker", "run", "--rm", "--network=host", f"--volume={repository}:/source:ro",
            *(trust if bundle.stat().st_size else ()), *(f"--env={one}" for one in env),
            "--entrypoint=sh", image, "-ec", line,
        ),
        check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return monotonic() - began


def _in_harness(repository: Path, home: Path) -> tuple[float, float]:
    """Return the seconds of a first and a second `harness run fix-tests` in a new home."""
    server = prefect_server.server_daemon(Settings(home=home, server_port=0))
    api = server.up().url
    try:
        runs = [fix_tests(_PROJECT, repository, home, api) for _ in ("first", "second")]
    finally:
        for command in (("env", "prune", "--all"), ("down",)):
            harness(command, repository, {"HARNESS_HOME": str(home)})
    for run in runs:
        if run.outcome != "green":
            raise RuntimeError(f"harness run fix-tests: {run}")
    return runs[0].seconds, runs[1].seconds
