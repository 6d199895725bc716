"""Shared by the tests of app."""

import subprocess
import sys
from collections.abc import Callable

from typer.testing import Result

Harness = Callable[..., "subprocess.CompletedProcess[str]"]


Cli = Callable[..., Result]


BY_WORDS = {"HARNESS_MEMORY_EMBEDDING__PROVIDER": "none"}
"""Memory without a model, which each process would load anew."""


def harness_argv(*args: str) -> tuple[str, ...]:
    """The argv of `harness` with these arguments."""
    return (sys.executable, "-m", "app", *args)
