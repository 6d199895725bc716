"""The command before it is ready."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.app import harness_argv

SLOW = """
import sys
print("importing", flush=True)
sys.stdin.readline()
raise SystemExit("not interrupted")
"""


@pytest.mark.parametrize(
    ("on_ctrl_c", "exit_code", "told"),
    [
        (signal.default_int_handler, -signal.SIGINT, ""),
        (signal.SIG_IGN, 1, "not interrupted\n"),
    ],
)
def test_ctrl_c_during_imports_ends_the_process_silently(
    on_ctrl_c: signal.Handlers, exit_code: int, told: str, tmp_path: Path
) -> None:
    (tmp_path / "typer.py").write_text(SLOW)
    with _inherited(on_ctrl_c):
        process = subprocess.Popen(
            harness_argv("blueprints", "list"),
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate("\n") == ("", told)
    assert process.returncode == exit_code


@contextmanager
def _inherited(on_ctrl_c: signal.Handlers) -> Iterator[None]:
    """What children find: ignored stays ignored, all else is the default."""
    before = signal.signal(signal.SIGINT, on_ctrl_c)
    yield
    signal.signal(signal.SIGINT, before)
