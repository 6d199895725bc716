"""Access to the local Prefect server: programs of this machine, and no page of another site."""

from collections.abc import Iterator
from dataclasses import replace
from socket import create_connection
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from flows.config.settings import Settings
from flows.services import prefect_server
from tests.support.waiting import LONG_S

pytestmark = pytest.mark.prefect

EVIL = "https://evil.example"
SOCKETS = ("/api/events/in", "/api/events/out", "/api/logs/out")


@pytest.fixture
def place(prefect_api: str) -> str:
    """What the server is called: a name of this machine with a port."""
    return urlsplit(prefect_api).netloc


@pytest.fixture
def client(prefect_api: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=prefect_api, timeout=LONG_S) as client:
        yield client


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": EVIL},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"host": "rebound.evil.example"},
        {"host": "rebound.evil.example", "origin": "http://rebound.evil.example"},
        {"host": "0.0.0.0"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "["},
        {"host": ""},
    ],
)
@pytest.mark.parametrize("kind", ["application/json", "text/plain", ""])
def test_a_page_of_another_site_changes_nothing(
    client: httpx.Client, headers: dict[str, str], kind: str
) -> None:
    name = f"blind-{uuid4()}"
    typed = headers | ({"content-type": kind} if kind else {})
    body = f'{{"name": "{name}"}}'.encode()
    assert client.post("/flows/", headers=typed, content=body).status_code == 403
    assert client.get(f"/flows/name/{name}").status_code == 404


@pytest.mark.parametrize("path", ["/health", "/flow_runs/x/resume"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_a_page_of_another_site_reads_nothing_and_gets_no_cors_header(
    client: httpx.Client, path: str, method: str
) -> None:
    asked = {"origin": EVIL, "access-control-request-method": "POST"}
    said = client.request(method, path, headers=asked)
    assert said.status_code == 403
    assert "access-control-allow-origin" not in said.headers


@pytest.mark.parametrize("path", SOCKETS)
def test_a_page_of_another_site_opens_no_socket(place: str, path: str) -> None:
    here = urlsplit(f"//{place}")
    with (
        pytest.raises(InvalidStatus, match="403"),
        connect(f"ws://{place}{path}", origin=Origin(EVIL)),
    ):
        pass
    with (
        create_connection((here.hostname, here.port)) as sock,
        pytest.raises(InvalidStatus, match="403"),
        connect(f"ws://rebound.evil.example{path}", sock=sock),
    ):
        pass


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_the_server_itself_has_access_by_either_name(
    client: httpx.Client, place: str, name: str
) -> None:
    here = place.replace("127.0.0.1", name)
    own = {"host": here, "origin": f"http://{here}", "sec-fetch-site": "same-origin"}
    assert client.post("/flows/filter", headers=own, json={}).is_success
    assert client.get(f"http://{place}/ui-settings", headers=own).json()["api_url"] == "/api"
    for path in SOCKETS:
        connect(f"ws://{here}{path}", origin=Origin(f"http://{here}")).close()


def test_no_page_of_another_site_shows_the_ui_in_a_frame(client: httpx.Client, place: str) -> None:
    page = client.get(f"http://{place}/", follow_redirects=True)
    assert page.headers["content-security-policy"] == "frame-ancestors 'self'"


def test_a_server_of_an_earlier_version_is_replaced_once_it_is_idle(
    own_server: Settings,
) -> None:
    before = replace(prefect_server.server_daemon(own_server), version=lambda: "").up()
    with httpx.Client(base_url=before.url, timeout=LONG_S) as server:
        flow = server.post("/flows/", json={"name": "at-work"}).json()["id"]
        asked = {"flow_id": flow, "state": {"type": "RUNNING"}}
        run = server.post("/flow_runs/", json=asked).raise_for_status().json()["id"]
        assert prefect_server.server_daemon(own_server).up().pid == before.pid
        done = {"state": {"type": "COMPLETED"}}
        server.post(f"/flow_runs/{run}/set_state", json=done).raise_for_status()
    configured = before.url.replace("127.0.0.1", "localhost")
    with temporary_settings({PREFECT_API_URL: configured}):
        api = prefect_server.api_url(own_server)
    assert not before.alive
    now = prefect_server.server_daemon(own_server).status()
    assert now is not None
    assert now.url == api
