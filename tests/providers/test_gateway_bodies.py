"""What one agent may have the gateway hold: it is one process for all runs of a host."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from time import monotonic, sleep

import pytest

from providers.account import HELD
from providers.gateway import MAX_BODY
from tests.providers.conftest import AgentClient, Open

Script = Callable[..., str]
ASK = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def client(agent: Open, script: Script) -> AgentClient:
    return agent(script())


@pytest.fixture
def unfinished(client: AgentClient) -> Iterator[ExitStack]:
    """Requests of the agent, `HELD` bytes together, whose last byte does not come."""
    with ExitStack() as stack:
        for _ in range(HELD // MAX_BODY):
            stack.enter_context(closing(_begun(client)))
        yield stack


def _begun(client: AgentClient) -> socket.socket:
    url = client.http.base_url
    begun = socket.create_connection((url.host, url.port or 80), timeout=60)
    head = f"POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {client.gate.token}\r\n"
    begun.sendall(f"{head}content-length: {MAX_BODY}\r\n\r\n".encode())
    begun.sendall(bytes(MAX_BODY - 1))
    return begun


def _until(client: AgentClient, status: int) -> str:
    give_up = monotonic() + 60
    while (answer := client.post("/v1/messages/count_tokens", ASK)).status_code != status:
        assert monotonic() < give_up, answer.text
        sleep(0.05)
    return answer.text


def test_an_agent_that_sends_more_than_it_waits_for_is_told_to_wait(
    client: AgentClient, unfinished: ExitStack
) -> None:
    assert "wait for their answers" in _until(client, 429)


def test_what_was_held_is_given_back(client: AgentClient, unfinished: ExitStack) -> None:
    _until(client, 429)
    unfinished.close()
    assert "input_tokens" in _until(client, 200)
