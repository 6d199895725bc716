"""Embedding by litellm, against a provider of our own on a loopback port."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from contracts.errors import ModelUnavailable
from providers.embed import LOCAL, embedder
from providers.minilm import is_installed


class Provider(BaseHTTPRequestHandler):
    """Gives each text a vector of its length, last text first; or a status that was asked for."""

    status: ClassVar[int] = 200
    asked: ClassVar[list[dict[str, object]]] = []

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        type(self).asked.append(asked)
        rows = [
            {"object": "embedding", "index": n, "embedding": [float(len(text)), 1.0]}
            for n, text in enumerate(asked["input"])
        ]
        body = {"object": "list", "model": "m", "data": rows[::-1], "usage": {}}
        answer = json.dumps(body if self.status == 200 else {"error": {"message": "no"}}).encode()
        self.send_response(self.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Provider.status, Provider.asked = 200, []
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_vectors_come_in_the_order_of_the_texts(url: str) -> None:
    embed = embedder("openai/m", api_key="k", api_base=url, dimensions=2)
    texts = ["x" * n for n in range(1, 131)]
    assert [vector[0] for vector in embed(texts)] == [float(n) for n in range(1, 131)]
    assert len(Provider.asked) == 3


@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_a_provider_that_fails_is_unavailable_and_tells_no_key(url: str, status: int) -> None:
    Provider.status = status
    embed = embedder("openai/m", api_key="sk-secret-12345678", api_base=url)
    with pytest.raises(ModelUnavailable) as told:
        embed(["a"])
    assert "secret" not in str(told.value)


def test_a_provider_that_is_not_there_is_unavailable() -> None:
    embed = embedder("openai/m", api_key="k", api_base="http://127.0.0.1:9/v1", timeout_s=5)
    with pytest.raises(ModelUnavailable):
        embed(["a"])


@pytest.mark.skipif(not is_installed(), reason="the package is not installed")
def test_the_default_is_the_local_model() -> None:
    assert len(embedder()(["a"])[0]) == len(embedder(LOCAL)(["a"])[0]) == 384
