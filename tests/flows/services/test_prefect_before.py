"""The oldest Prefect that `pyproject.toml` allows: tests run in an environment that has it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.prefect

ROOT = Path(__file__).parents[3]
TESTS = ("tests/flows/services/test_deployments.py", "tests/flows/orchestration/test_start.py")


def test_a_run_and_its_deployments_work_with_the_oldest_prefect(tmp_path: Path) -> None:
    oldest = re.search(r'"prefect>=([\d.]+),', (ROOT / "pyproject.toml").read_text())
    assert oldest is not None
    python = tmp_path / "venv/bin/python"
    uv("venv", "--quiet", str(tmp_path / "venv"), "--python", sys.executable)
    install = ("pip", "install", "--quiet", "--python", str(python))
    uv(*install, "--require-hashes", "--requirement", str(ROOT / "requirements.lock"))
    uv(*install, "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    uv(*install, f"prefect=={oldest[1]}")
    environ = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    ran = subprocess.run(
        (python, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", *TESTS),
        cwd=ROOT, env=environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-3000:]
    used = subprocess.run(
        (python, "-c", "import prefect; print(prefect.__version__)"),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert used.stdout.strip() == oldest[1]


def uv(*args: str) -> None:
    """Run uv with the package index of pip, as the Makefile does."""
    get_index = (sys.executable, "-m", "pip", "config", "get", "global.index-url")
    index = subprocess.run(get_index, capture_output=True, text=True, check=False).stdout.strip()
    named = {"UV_DEFAULT_INDEX": index} if index else {}
    environ = {"UV_SYSTEM_CERTS": "1", **os.environ, **named}
    subprocess.run((Path(sys.executable).with_name("uv"), *args), env=environ, check=True)
