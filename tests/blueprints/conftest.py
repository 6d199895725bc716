"""The sandbox that these tests run in: real commands, no isolation, this Python first."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.scripted import ScriptedSandbox


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedSandbox]:
    """A fresh workspace, gone after the test."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    with ScriptedSandbox() as sandbox:
        yield sandbox
