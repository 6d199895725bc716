"""Limits of what one agent may keep in the gateway's memory and threads."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from contracts.model_access import TokenSpec
from contracts.tool import Allowed
from providers.account import MAX_CONCURRENT, MAX_PENDING_BYTES, Account
from providers.gateway import MAX_BODY_BYTES, gateway_app
from providers.gateway_api import RunTerms
from providers.open_runs import OpenRuns
from tests.support.gateway import AgentClient, Open, Script
from tests.support.waiting import wait_until

ASK = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def client(agent: Open, script: Script) -> AgentClient:
    return agent(script())


@pytest.fixture
def come_in(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the chunks of request bodies that the gateway has received."""
    sizes: list[int] = []
    pending_body = Account.pending_body

    @contextmanager
    def counted(account: Account) -> Iterator[Callable[[int], None]]:
        with pending_body(account) as more:

            def count(size: int) -> None:
                more(size)
                sizes.append(size)

            yield count

    monkeypatch.setattr(Account, "pending_body", counted)
    return sizes


@pytest.fixture
def unfinished(client: AgentClient, come_in: list[int]) -> Iterator[ExitStack]:
    """Requests of `MAX_PENDING_BYTES` together, whose last byte is never sent."""
    with ExitStack() as stack:
        for _ in range(MAX_PENDING_BYTES // MAX_BODY_BYTES):
            stack.enter_context(closing(_begun(client)))
        # While their bytes still come in, another request would push one of them out.
        wait_until(
            lambda: sum(come_in) == MAX_PENDING_BYTES // MAX_BODY_BYTES * (MAX_BODY_BYTES - 1)
        )
        yield stack


def _begun(client: AgentClient) -> socket.socket:
    url = client.http.base_url
    begun = socket.create_connection((url.host, url.port or 80))
    head = f"POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {client.access.token}\r\n"
    begun.sendall(f"{head}content-length: {MAX_BODY_BYTES}\r\n\r\n".encode())
    begun.sendall(bytes(MAX_BODY_BYTES - 1))
    return begun


def _until(client: AgentClient, status: int) -> str:
    def asked() -> str:
        answer = client.post("/v1/messages/count_tokens", ASK)
        return answer.text if answer.status_code == status else ""

    return wait_until(asked)


def test_free_requests_of_one_agent_are_limited(tmp_path: Path) -> None:
    open_runs = OpenRuns(make_guard=lambda _, __: lambda _: Allowed(), redact=str)
    open_runs.open_run(RunTerms(run_id="r", trajectory=tmp_path / "t.jsonl"))
    tokens = [
        open_runs.open_token("r", TokenSpec(node="n", agent="pi", model="scripted/x")) for _ in "ab"
    ]
    app = gateway_app(open_runs, secret="s", check_model=lambda _: None)

    def statuses(token: str) -> list[int]:
        headers = {"x-api-key": token}
        counted = http.post("/v1/messages/count_tokens", json=ASK, headers=headers)
        return [counted.status_code, http.get("/v1/models", headers=headers).status_code]

    with TestClient(app) as http:
        with ExitStack() as under_way:
            for _ in range(MAX_CONCURRENT):
                under_way.enter_context(open_runs.account(tokens[0]).free_request())
            assert [statuses(token) for token in tokens] == [[429, 429], [200, 200]]
        assert [statuses(tokens[0]) for _ in range(MAX_CONCURRENT)] == [[200, 200]] * MAX_CONCURRENT
    open_runs.close_run("r")


def test_an_agent_with_too_many_pending_bytes_gets_429(
    client: AgentClient, unfinished: ExitStack
) -> None:
    assert "wait for their answers" in _until(client, 429)


def test_bytes_of_a_disconnected_request_are_released(
    client: AgentClient, unfinished: ExitStack
) -> None:
    _until(client, 429)
    unfinished.close()
    assert "input_tokens" in _until(client, 200)
