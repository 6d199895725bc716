"""The client of MCP servers at a URL: what a hostile or broken one sends is one line."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from contracts.errors import McpUnavailable
from providers.mcp_client import MAX_ANSWER_BYTES, url_client
from tests.support.waiting import LONG_S

_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "serverInfo": {"name": "x", "version": "1"},
}


def answer(result: object, number: object = 0) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()


class Server(BaseHTTPRequestHandler):
    """Answers `initialize` as it should, and everything else with `call`."""

    call: Callable[["Server", object], None]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if asked["method"] == "initialize":
            self.send(answer(_HELLO, asked["id"]))
        elif "id" not in asked:
            self.send(b"", 202)
        else:
            type(self).call(self, asked["id"])

    def send(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serving(call: Callable[[Server, object], None]) -> Iterator[str]:
    handler = type("Handler", (Server,), {"call": call})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()


def gigantic(server: Server, number: object) -> None:
    text = {"content": [{"type": "text", "text": "x" * (MAX_ANSWER_BYTES + 1)}]}
    with suppress(OSError):  # the client hangs up
        server.send(answer(text, number))


def bomb(server: Server, number: object) -> None:
    body = gzip.compress(answer({"content": []}, number))
    server.send(body, content_encoding="gzip")


def silent(server: Server, number: object) -> None:
    threading.Event().wait(60)


def rude(server: Server, number: object) -> None:
    server.send(b"who are you?", 401)


def wrong(server: Server, number: object) -> None:
    server.send(answer({"content": "none"}, number))


def elsewhere(server: Server, number: object) -> None:
    server.send(b"", 307, location="http://127.0.0.1:1/steal")


@pytest.mark.parametrize("call", [gigantic, bomb, silent, rude, wrong, elsewhere])
def test_a_server_that_misbehaves_is_unavailable(call: Callable[[Server, object], None]) -> None:
    timeout_s = 2 if call is silent else LONG_S
    with serving(call) as url, pytest.raises(McpUnavailable) as caught, ExitStack() as stack:
        stack.enter_context(url_client(url, {}, timeout_s=timeout_s)).call("x", {})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with (
        pytest.raises(McpUnavailable),
        url_client("http://127.0.0.1:1/mcp", {}, timeout_s=LONG_S),
    ):
        pass


def test_headers_go_to_the_server() -> None:
    def echo(server: Server, number: object) -> None:
        said = server.headers["authorization"]
        server.send(answer({"content": [{"type": "text", "text": said}]}, number))

    headers = {"Authorization": "Bearer s3cret"}
    with serving(echo) as url, url_client(url, headers, timeout_s=LONG_S) as client:
        assert client.call("x", {}).text == "Bearer s3cret"
