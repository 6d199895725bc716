"""The local Prefect server: a real one is started, reused and stopped."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from contracts.errors import PrefectUnavailable
from flows.config.settings import Settings, load_settings
from flows.services import deploy, prefect_server
from tests.support.here import here
from tests.support.waiting import wait_until

pytestmark = pytest.mark.prefect


def test_a_server_is_reused_restarted_and_stopped(own_server: Settings) -> None:
    first = prefect_server.server_daemon(own_server).up()
    assert prefect_server.server_daemon(own_server).up() == first
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: not first.alive)
    second = prefect_server.server_daemon(own_server).up()
    assert second.pid != first.pid
    assert prefect_server.server_daemon(own_server).down()
    assert not second.alive
    assert prefect_server.server_daemon(own_server).status() is None
    assert not prefect_server.server_daemon(own_server).down()


def test_a_damaged_state_file_counts_as_no_server(own_server: Settings) -> None:
    state_file = own_server.home / "prefect" / "server.json"
    state_file.parent.mkdir(parents=True)
    state_file.write_text("{")
    assert prefect_server.server_daemon(own_server).status() is None


def test_concurrent_writes_are_all_answered(prefect_api: str) -> None:
    def run(number: int) -> None:
        def ask(path: str, **body: object) -> str:
            said = here().post(f"{prefect_api}{path}", json=body).raise_for_status()
            return str(said.json().get("id"))

        made = ask("/flow_runs/", flow_id=ask("/flows/", name=f"busy-{number % 2}"))
        for state in ("PENDING", "RUNNING", "COMPLETED"):
            ask(f"/flow_runs/{made}/set_state", state={"type": state})

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(run, range(32)))


def test_a_configured_server_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    nowhere = "http://127.0.0.1:9/api"
    with (
        temporary_settings({PREFECT_API_URL: nowhere}),
        pytest.raises(PrefectUnavailable, match="no Prefect server answers at http://127"),
    ):
        prefect_server.api_url(load_settings())


def test_a_configured_server_is_used_and_none_is_started(prefect_api: str, own_home: Path) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: prefect_api}):
        assert prefect_server.api_url(load_settings()) == prefect_api
    assert not (own_home / "prefect").exists()


@pytest.fixture
def ancient() -> Iterator[str]:
    """The address of a server that is of another major version, and says so."""

    class Ancient(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'"2.20.1"' if self.path.endswith("/version") else b"true")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Ancient) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()


def test_a_server_of_another_version_is_refused_in_one_line(ancient: str) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with (
        temporary_settings({PREFECT_API_URL: ancient}),
        pytest.raises(PrefectUnavailable, match=r"cannot be used: .*server: 2\.20\.1") as told,
    ):
        prefect_server.api_url(load_settings())
    assert "\n" not in str(told.value)


def test_a_missing_pool_or_worker_is_reported(
    prefect_api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deploy, "WORK_POOL", "nobody-works-here")
    assert "`harness up`, which creates it" in str(deploy.missing_worker_warning(prefect_api))
    pool = {"name": "nobody-works-here", "type": "process"}
    here().post(f"{prefect_api}/work_pools/", json=pool).raise_for_status()
    assert "no worker is online" in str(deploy.missing_worker_warning(prefect_api))
    here().delete(f"{prefect_api}/work_pools/nobody-works-here").raise_for_status()
