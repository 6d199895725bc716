"""The command line, as a person or a script starts it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flows.repositories import make_repository

Harness = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def harness(own_home: Path, tmp_path: Path) -> Harness:
    """Run `harness` with these arguments; `env` adds variables."""

    def run(*args: str, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            harness_argv(*args),
            cwd=tmp_path,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    return run


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


def harness_argv(*args: str) -> tuple[str, ...]:
    """The argv of `harness` with these arguments."""
    return (sys.executable, "-m", "app", *args)
