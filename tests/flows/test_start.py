"""A Prefect server that is there and does not answer as it should is an outage, not a bug."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from contracts.errors import PrefectUnavailable
from flows.start import prefect_at


class Busy(BaseHTTPRequestHandler):
    """What Prefect's server says when its database is locked for too long."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(503)
        self.end_headers()

    do_GET = do_POST  # noqa: N815 - the library asks for it by this name

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def busy() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()


def test_a_server_that_is_too_busy_is_named_in_one_line(busy: str) -> None:
    from prefect import get_client
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    with (
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
        pytest.raises(PrefectUnavailable, match=r"stopped answering.*503") as told,
        prefect_at(busy),
        get_client(sync_client=True) as client,
    ):
        client.create_flow_from_name("any")
    assert "\n" not in str(told.value)
