"""Dependencies whose sandbox is scripted and whose model replays a file: no Docker, no key."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from blueprints.dsl import agentic, blueprint
from flows.config.settings import Settings
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.orchestration.start import connected_to
from flows.services import prefect_server
from tests.support.flows import DONE, Ask, ask, model, repository, shop
from tests.support.repositories import git
from tests.support.waiting import LONG_S

__all__ = ("ask", "model", "repository", "shop")


@pytest.fixture
def api(prefect_api: str) -> Iterator[httpx.Client]:
    """The server, asked by plain HTTP."""
    with (
        connected_to(prefect_api),
        httpx.Client(base_url=prefect_api, timeout=LONG_S) as client,
    ):
        yield client


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Settings]:
    """Settings whose local Prefect server is this test's own; stopped when it is over."""
    made = Settings(home=tmp_path / "home", server_port=0)
    yield made
    prefect_server.server_daemon(made).down()


@pytest.fixture
def run(
    shop: RunDependencies, ask: Ask, model: Callable[..., str], monkeypatch: pytest.MonkeyPatch
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


@pytest.fixture
def origin(repository: Path, tmp_path: Path) -> Path:
    """An empty bare repository: the `origin` of the repository that runs work on."""
    bare = tmp_path / "origin.git"
    git(tmp_path, "init", "--quiet", "--bare", str(bare))
    git(repository, "remote", "add", "origin", str(bare))
    return bare
