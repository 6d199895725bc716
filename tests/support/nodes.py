"""Shared by the tests of nodes."""

from collections.abc import Iterator

import pytest

from sandbox.scripted import ScriptedSandbox
from tests.support.plain_python import plain_python


@pytest.fixture
def sandbox(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ScriptedSandbox]:
    """A fresh workspace, gone after the test."""
    monkeypatch.setenv("PATH", plain_python(tmp_path_factory.mktemp("bin")))
    with ScriptedSandbox() as sandbox:
        yield sandbox
