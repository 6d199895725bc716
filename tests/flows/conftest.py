"""A workshop whose sandbox is scripted and whose model replays a file: no Docker, no key."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from blueprints.dsl import agentic, blueprint
from blueprints.types import Blueprint
from contracts.sandbox import SnapshotId
from flows.config.settings import Settings, load_settings
from flows.execution.dependencies import Opened, Workshop
from flows.execution.engine import run_blueprint
from flows.execution.wiring import workshop
from flows.orchestration.start import prefect_at
from flows.runs.request import ResolvedRequest
from flows.services import local
from sandbox.egress import Egress, OnEvent
from sandbox.installs import let_out
from sandbox.scripted import ScriptedSandbox
from tests.flows.repositories import make_repository
from tests.requested import requested
from tests.waiting import LONG_S

Ask = Callable[..., ResolvedRequest]

FOUND = {
    "type": "Context",
    "scope": "user",
    "text": "the project has no lock file",
    "confidence": 80,
}
"""What a curator may find in a run."""

DONE = {"content": "Done."}


def answer(*findings: object) -> dict[str, object]:
    """A curator's reply."""
    return {"role": "assistant", "content": json.dumps({"findings": findings})}


@pytest.fixture
def shop(own_store: Path) -> Workshop:
    """The real workshop, but for the sandbox."""
    return scripted_shop()


def scripted_shop(*, replay: Path | None = None) -> Workshop:
    """The workshop of this home, whose sandbox is a folder of this machine."""

    @contextmanager
    def open_sandbox(
        request: ResolvedRequest, _: str, on_event: OnEvent, files: SnapshotId | None
    ) -> Iterator[Opened]:
        asked = request.definition.egress
        start = ScriptedSandbox.resume(files) if files else ScriptedSandbox()
        with start as sandbox, Egress(asked, on_event) as egress:
            yield Opened(sandbox, let_out(sandbox, egress) if asked else {})

    return replace(
        workshop(load_settings(), replay=replay),
        open_sandbox=open_sandbox,
        forget_files=lambda _, __: None,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture
def api(prefect_api: str) -> Iterator[httpx.Client]:
    """The server, asked by plain HTTP."""
    with (
        prefect_at(prefect_api),
        httpx.Client(base_url=prefect_api, timeout=LONG_S) as client,
    ):
        yield client


@pytest.fixture
def own_server(tmp_path: Path, begun: Callable[[Path], None]) -> Iterator[Settings]:
    """Settings whose local Prefect server is this test's own; stopped when it is over."""
    made = Settings(home=tmp_path / "home", server_port=0)
    begun(made.home)
    yield made
    local.down(made)


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., str]:
    """A scripted model that gives these replies."""

    def script(*replies: dict[str, object]) -> str:
        path = tmp_path / "replies.jsonl"
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        return f"scripted/{path}"

    return script


@pytest.fixture
def ask(repository: Path) -> Ask:
    """A request for this blueprint, on the test repository unless told otherwise."""

    def request(
        blueprint: Blueprint, *, repo: str = "", model: str = "scripted/none", push: bool = False
    ) -> ResolvedRequest:
        return requested(blueprint, repo or repository, model=model, push=push)

    return request


@pytest.fixture
def run(
    shop: Workshop, ask: Ask, model: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Does a run of one agent for ann, asked as it is told besides; gives its id."""
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")

    def run_it(run_id: str, *, intent: str = "", intent_from: str = "") -> str:
        node = agentic("think", "think", prompt=lambda _: "think")
        asked = ask(blueprint("one", "One", [node]), model=model(DONE))
        told = asked.changed(user="ann", intent=intent, intent_from=intent_from)
        return run_blueprint(told, shop, run_id=run_id).run_id

    return run_it


@pytest.fixture
def curator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Makes the configured curator give these replies."""

    def give(*replies: dict[str, object]) -> str:
        path = tmp_path / "curator.jsonl"
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        monkeypatch.setenv("HARNESS_MEMORY_CURATE_MODEL", f"scripted/{path}")
        return f"scripted/{path}"

    return give
