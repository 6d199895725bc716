"""A gateway for the tests of this folder, and an agent's way to speak with it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from contracts.model_access import TokenSpec
from providers.client import Gateway
from providers.run_account import RunTerms
from tests.support.gateway import AgentClient, Open, Script
from tests.support.running_gateway import running_gateway
from tests.support.waiting import LONG_S


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with running_gateway() as client:
        yield client


@pytest.fixture
def agent(gateway: Gateway, tmp_path: Path) -> Iterator[Open]:
    """Opens a run and a token for one agent; both end with the test."""
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
            open_gate = stack.enter_context(gateway.run(RunTerms.model_validate(fields)))
            terms = TokenSpec(
                node="fix", agent=name, model=model, allowed_tools=allowed, turns=turns
            )
            gate = stack.enter_context(open_gate(terms))
            http = stack.enter_context(httpx.Client(base_url=gateway.url, timeout=LONG_S))
            return AgentClient(gate, http, trajectory)

        yield open_


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Writes replies to a file and names the model that gives them."""

    def write(*replies: object) -> str:
        path = tmp_path / "replies.jsonl"
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        return f"scripted/{path}"

    return write
