"""The pages, asked as a browser on this machine asks."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import takewhile
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.web.site import site
from blueprints.dsl import agentic, blueprint
from contracts.run import DiffStat, NodeReport, RunReport, Surfaced
from flows.recall.library import library, notebook
from flows.runs.run_record import write_record
from flows.runs.runs import finish
from memory.notes.notebook import Notebook
from memory.playbooks.library import Library
from tests.flows.conftest import ask, model, repository, shop
from tests.forks import Fork
from tests.requested import requested

__all__ = ["ask", "model", "repository", "shop"]

HERE = "http://127.0.0.1:4280"


Serve = Callable[[], AbstractContextManager[str]]


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
    with TestClient(site(), base_url=HERE, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def opened(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """The library that the pages show, without vectors."""
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")
    with library() as opened:
        yield opened


def a_run(runs: Path, run_id: str, *, intent: str = "make it so", shown: str = "") -> None:
    """A run with one agentic node that has ended."""
    mend = blueprint("mend", "Mend", [agentic("fix", "Fix", prompt=lambda ctx: "fix")])
    request = requested(mend, "/somewhere/shop", intent=intent, model="scripted/x")
    own = write_record(runs, run_id, request, None)
    report = RunReport(
        run_id=run_id,
        blueprint="mend",
        status="success",
        nodes=(NodeReport(name="fix", type="agentic", status="success", output="it is mended"),),
        branch=f"harness/{run_id}/mend",
        pull_request="https://forge.example/shop/pulls/7",
        diff_stat=DiffStat(files=1, insertions=1, deletions=1),
        surfaced=Surfaced(playbooks=(shown,) if shown else ()),
    )
    finish(own, report, "--- a/x\n+++ b/x\n-old line\n+new line\n")


@pytest.fixture
def book(opened: Library) -> Iterator[Notebook]:
    """The notebook that the pages show, without vectors."""
    with notebook() as made:
        yield made
