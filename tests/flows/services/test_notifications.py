"""Notifications through real blocks of a Prefect server, to a webhook on loopback."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.blocks.system import Secret
from pydantic import SecretStr

from contracts.errors import NotificationFailed
from flows.orchestration.start import connected_to
from flows.services.notifications import send_notification

pytestmark = pytest.mark.prefect


class Hook(HTTPServer):
    """Keeps the bodies that it is sent, and answers with this status."""

    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.bodies: list[object] = []


class _Answers(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.bodies.append(json.loads(self.rfile.read(length)))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def block(prefect_api: str, hook: Hook) -> Iterator[str]:
    """A block that posts to the hook with a secret in its address."""
    address = f"http://127.0.0.1:{hook.server_port}/s3cret-path"
    with connected_to(prefect_api):
        CustomWebhookNotificationBlock(
            name="team",
            url=address,
            json_data={"title": "{{subject}}", "text": "{{body}}"},
            headers=None,
            cookies=None,
        ).save("team-hook", overwrite=True)
        yield "custom-webhook/team-hook"


def test_a_notification_reaches_the_address_of_its_block(block: str, hook: Hook) -> None:
    send_notification(block, "Red", "It fails")
    assert hook.bodies == [{"title": "Red", "text": "It fails"}]


def test_a_block_that_cannot_send_is_told_without_its_secret_address(
    block: str, hook: Hook
) -> None:
    hook.status = 500
    with pytest.raises(NotificationFailed, match="'custom-webhook/team-hook' could not") as failed:
        send_notification(block, "Red", "It fails")
    assert "s3cret" not in str(failed.value)


def test_a_block_that_is_missing_or_sends_nothing_is_told(block: str) -> None:
    with pytest.raises(NotificationFailed, match="'slack-webhook/none' cannot be used"):
        send_notification("slack-webhook/none", "Red", "It fails")
    Secret(value=SecretStr("key-of-team-a")).save("no-notification", overwrite=True)
    with pytest.raises(NotificationFailed, match="'secret/no-notification' sends no"):
        send_notification("secret/no-notification", "Red", "It fails")
