"""A small HTTP server on loopback that answers like OpenAI's or Anthropic's API."""

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass(frozen=True)
class Answer:
    """One HTTP response; the last one of a list is repeated."""

    body: object = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    events: Iterable[str] = ()
    """Server-sent events instead of a body; the connection is closed after the last."""
    named: bool = False
    """Whether events have the name of their type, as Anthropic's do."""
    pause_s: float = 0.0
    """Before each event."""
    silence_s: float = 0.0
    """Before anything."""


@dataclass
class Provider:
    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)  # JSON of any shape


@contextmanager
def provider(*answers: Answer) -> Iterator[Provider]:
    """Serve the answers in order, on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            served.requests.append(json.loads(self.rfile.read(length)))
            answer = answers[min(len(served.requests), len(answers)) - 1]
            if answer.events:
                self.stream(answer)
            else:
                self.give(answer)

        def give(self, answer: Answer) -> None:
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            self.send_response(answer.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text.encode())))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        def stream(self, answer: Answer) -> None:
            self.send_response(answer.status)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            with suppress(ConnectionError):  # the client has disconnected
                time.sleep(answer.silence_s)
                for event in answer.events:
                    time.sleep(answer.pause_s)
                    name = f"event: {json.loads(event)['type']}\n" if answer.named else ""
                    self.wfile.write(f"{name}data: {event}\n\n".encode())
                    self.wfile.flush()

        def log_message(self, *args: object) -> None:
            pass

    with serving(Handler) as url:
        served = Provider(url)
        yield served


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Run an HTTP server on loopback and yield its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def use_as_openai(served: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make litellm use this provider for every model of OpenAI."""
    monkeypatch.setenv("OPENAI_API_BASE", served.url)
