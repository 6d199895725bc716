"""Events over real HTTP: as they happen, from where one left off, until one goes."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn

from app.web import api
from app.web.serve import create_app
from contracts.json import Json
from flows.execution.wiring import open_event_log
from policy.log.event_log import EventLog
from policy.log.events import Draft
from tests.support.waiting import LONG_S, wait_until


class Pages:
    """The pages on a free port; `left` is set when a reader of events is let go."""

    def __init__(self) -> None:
        self.left = threading.Event()
        made = create_app()
        made.dependency_overrides[api.open_log] = self._log
        config = uvicorn.Config(made, port=0, log_level="warning", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)

    def _log(self) -> Iterator[EventLog]:
        with open_event_log() as log:
            yield log
        self.left.set()

    def start(self) -> str:
        self._thread.start()
        wait_until(lambda: self._server.started, every_s=0.01)
        (listening,) = self._server.servers
        return f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()


@pytest.fixture
def pages(own_home: Path) -> Iterator[Pages]:
    made = Pages()
    yield made
    made.stop()


@pytest.fixture
def log(own_home: Path) -> Iterator[EventLog]:
    with open_event_log() as opened:
        yield opened


@contextmanager
def reading(url: str, *, last: str | None = None) -> Iterator[Iterator[dict[str, str]]]:
    """The events there, each as its fields."""
    headers = {} if last is None else {"Last-Event-ID": last}
    with httpx.stream("GET", f"{url}/events", headers=headers, timeout=LONG_S) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _events(answer.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    found: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            found[name] = value
        elif "data" in found:
            yield found
            found = {}


def step(number: int, status: str) -> Draft:
    body: dict[str, Json] = {"step": number, "status": status, "reason": ""}
    return Draft(kind="step", run_id="r1", body=body)


def test_events_are_streamed_each_after_its_change_of_the_plan(pages: Pages, log: EventLog) -> None:
    log.append([step(0, "done")])
    with reading(pages.start()) as events:
        (made,) = log.append([step(1, "waiting")])
        delta, event = next(events), next(events)
    assert delta["event"] == "plan"
    assert json.loads(delta["data"]) == {
        "plan": "r1", "step": 1, "status": "waiting", "reason": ""
    }  # fmt: skip
    assert (event["event"], json.loads(event["data"])["id"]) == ("event", made.id)


def test_a_client_that_reconnects_misses_no_event(pages: Pages, log: EventLog) -> None:
    url = pages.start()
    with reading(url) as events:
        log.append([step(0, "done")])
        last = [next(events), next(events)][-1]["id"]
    made = log.append([step(1, "done"), step(2, "done")])
    with reading(url, last=last) as events:
        seen = [json.loads(next(events)["data"]) for _ in range(4)]
    assert [one["id"] for one in seen[1::2]] == [event.id for event in made]


def test_a_stream_ends_when_its_client_disconnects(pages: Pages, log: EventLog) -> None:
    with reading(pages.start()) as events:
        log.append([step(0, "done")])
        next(events)
        assert not pages.left.is_set()
    assert pages.left.wait(LONG_S)
