"""Native agents are tested in a sandbox without isolation."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.scripted import ScriptedSandbox


@pytest.fixture(autouse=True)
def agents_have_a_folder_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scripted sandbox shares the machine's /tmp with those of tests beside this one."""
    monkeypatch.setattr("nodes.agents.cli._HOME", str(tmp_path / "agents"))
    monkeypatch.setattr("nodes.agents.native._OUTPUTS", str(tmp_path / "outputs"))


@pytest.fixture
def sandbox() -> Iterator[ScriptedSandbox]:
    with ScriptedSandbox() as sandbox:
        yield sandbox


@pytest.fixture
def work_dir(sandbox: ScriptedSandbox) -> Path:
    """The sandbox's workspace as a folder on this machine."""
    return Path(sandbox.work_dir)
