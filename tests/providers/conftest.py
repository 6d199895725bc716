"""A gateway for the tests of this folder, and clients that talk to it as agents do."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from contracts.model_access import TokenSpec
from providers.client import Gateway
from providers.gateway_api import RunTerms
from tests.support.gateway import AgentClient, Open, Script
from tests.support.running_gateway import running_gateway
from tests.support.waiting import LONG_S


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with running_gateway() as client:
        yield client


@pytest.fixture
def agent(gateway: Gateway, tmp_path: Path) -> Iterator[Open]:
    """Return a function that opens a run and a token for one agent, until the test ends."""
    with ExitStack() as stack:

        def open_(
            model: str,
            *,
            name: str = "claude-code",
            allowed: tuple[str, ...] | None = None,
            turns: int | None = None,
            run_id: str = "r1",
            **run: object,
        ) -> AgentClient:
            trajectory = tmp_path / f"{run_id}.jsonl"
            fields = {"run_id": run_id, "trajectory": trajectory, **run}
            open_access = stack.enter_context(gateway.run(RunTerms.model_validate(fields)))
            spec = TokenSpec(
                node="fix", agent=name, model=model, allowed_tools=allowed, turns=turns
            )
            access = stack.enter_context(open_access(spec))
            http = stack.enter_context(httpx.Client(base_url=gateway.url, timeout=LONG_S))
            return AgentClient(access, http, trajectory)

        yield open_


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Return a function that writes replies to a file and returns the model that plays them."""

    def write(*replies: object) -> str:
        path = tmp_path / "replies.jsonl"
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        return f"scripted/{path}"

    return write
