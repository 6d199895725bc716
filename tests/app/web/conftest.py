"""The pages, asked as a browser on this machine asks."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.web.serve import create_app
from flows.recall.library import configured_library, configured_notebook
from memory.notes.notebook import Notebook
from memory.playbooks.library import Library
from tests.support.flows import ask, model, repository, shop
from tests.support.forks import Fork
from tests.support.web import HERE, Serve

__all__ = ["ask", "model", "repository", "shop"]


@pytest.fixture
def served(own_home: Path, tmp_path: Path, fork: Fork) -> Serve:
    """The address of `harness ui`, until the block ends."""

    @contextmanager
    def serve() -> Iterator[str]:
        said, out = os.pipe()
        ui = ("app", "ui", "--port", "0", "--json")
        process = fork(*ui, cwd=tmp_path, env=os.environ, stdout=out, stderr=sys.stderr.fileno())
        os.close(out)
        with os.fdopen(said) as lines, process:
            told = "".join(takewhile(lambda line: line != "}\n", lines))
            yield json.loads(f"{told}}}")["url"].rstrip("/")
            process.send_signal(signal.SIGTERM)

    return serve


@pytest.fixture
def client(own_store: Path) -> Iterator[TestClient]:
    with TestClient(create_app(), base_url=HERE, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def opened(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """The library that the pages show, without vectors."""
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")
    with configured_library() as opened:
        yield opened


@pytest.fixture
def book(opened: Library) -> Iterator[Notebook]:
    """The notebook that the pages show, without vectors."""
    with configured_notebook() as made:
        yield made
