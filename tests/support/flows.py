"""Shared by the tests of flows."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from blueprints.types import Blueprint
from contracts.sandbox import SnapshotId
from flows.config.settings import load_settings
from flows.execution.dependencies import OpenedSandbox, RunDependencies
from flows.execution.wiring import build_dependencies
from flows.runs.request import ResolvedRequest
from sandbox.egress import EgressProxy, OnEvent, open_egress
from sandbox.scripted import ScriptedSandbox
from tests.support.repositories import make_repository
from tests.support.requested import requested

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
def shop(own_store: Path) -> RunDependencies:
    """The real dependencies, but for the sandbox."""
    return scripted_shop()


def scripted_shop(*, replay: Path | None = None) -> RunDependencies:
    """The dependencies of this home, whose sandbox is a folder of this machine."""

    @contextmanager
    def open_sandbox(
        request: ResolvedRequest, _: str, on_event: OnEvent, files: SnapshotId | None
    ) -> Iterator[OpenedSandbox]:
        asked = request.definition.egress if request.way_out else ()
        start = ScriptedSandbox.resume(files) if files else ScriptedSandbox()
        with start as sandbox, EgressProxy(asked, on_event) as egress:
            yield OpenedSandbox(sandbox, open_egress(sandbox, egress) if asked else {})

    return replace(
        build_dependencies(load_settings(), replay=replay),
        prepare_toolchain=lambda request, *_: request,
        open_sandbox=open_sandbox,
        find_start=lambda _, __: None,
        remove_snapshots=lambda _, __: None,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


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
