"""Embeddings by litellm, with a fake provider on a loopback port."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from contracts.errors import ModelRefused, ModelUnavailable
from providers.embed import EmbeddingRequest, litellm_name
from providers.exchange import embed
from providers.gateway_api import Price


class Provider(BaseHTTPRequestHandler):
    """Returns each text's length as its vector, last text first; or the status that is set."""

    status: ClassVar[int] = 200
    asked: ClassVar[list[dict[str, object]]] = []

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        type(self).asked.append(asked)
        rows = [
            {"object": "embedding", "index": n, "embedding": [float(len(text)), 1.0]}
            for n, text in enumerate(asked["input"])
        ]
        body = {
            "object": "list",
            "model": "m",
            "data": rows[::-1],
            "usage": {"prompt_tokens": 7, "total_tokens": 7},
        }
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


def ask(url: str, *texts: str, **more: object) -> EmbeddingRequest:
    given = {"harness_api_key": "sk-secret-12345678", "harness_api_base": url, **more}
    return EmbeddingRequest.model_validate({"input": texts, **given})


def test_vectors_are_in_the_order_of_the_texts(url: str) -> None:
    texts = ["x" * n for n in range(1, 131)]
    made = embed("openai/m", ask(url, *texts, dimensions=2), {"openai/m": Price(input=1000)})
    assert [vector[0] for vector in made.vectors] == [float(n) for n in range(1, 131)]
    assert len(Provider.asked) == 3
    assert made.usage.input == 21
    assert made.usage.cost_usd == pytest.approx(0.021)


def test_an_embedding_model_has_a_price(url: str) -> None:
    made = embed("text-embedding-3-small", ask(url, "a"))
    assert made.usage.cost_usd == pytest.approx(7 * 2e-8)


@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_a_failing_provider_is_an_outage_without_the_key(url: str, status: int) -> None:
    Provider.status = status
    with pytest.raises(ModelUnavailable) as told:
        embed("openai/m", ask(url, "a"))
    assert "secret" not in str(told.value)
    assert not isinstance(told.value, ModelRefused)


@pytest.mark.parametrize("status", [400, 413])
def test_a_refused_text_is_not_an_outage(url: str, status: int) -> None:
    Provider.status = status
    with pytest.raises(ModelRefused):
        embed("openai/m", ask(url, "a"))


def test_a_bare_model_name_gets_its_providers_prefix() -> None:
    assert litellm_name("google", "gemini-embedding-001") == "gemini/gemini-embedding-001"
    assert litellm_name("ollama", "mxbai-embed-large") == "ollama/mxbai-embed-large"
    assert litellm_name("ollama", "ollama/x") == "ollama/x"
    assert litellm_name("openai", "text-embedding-3-large") == "text-embedding-3-large"


def test_an_unreachable_provider_is_an_outage() -> None:
    with pytest.raises(ModelUnavailable):
        embed("openai/m", ask("http://127.0.0.1:9/v1", "a", harness_timeout_s=5))
