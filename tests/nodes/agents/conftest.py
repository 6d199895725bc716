"""Native agents are tested in a sandbox without isolation."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.scripted import ScriptedSandbox


@pytest.fixture
def sandbox() -> Iterator[ScriptedSandbox]:
    with ScriptedSandbox() as sandbox:
        yield sandbox


@pytest.fixture
def work_dir(sandbox: ScriptedSandbox) -> Path:
    """The sandbox's workspace as a folder on this machine."""
    return Path(sandbox.work_dir)
