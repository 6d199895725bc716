"""The receiver of webhooks as GitHub meets it, with a real Prefect server behind it."""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from fastapi.testclient import TestClient
from prefect.settings import PREFECT_API_URL, temporary_settings
from pydantic import SecretStr

from app.web.webhooks import MAX_BODY, receiver_site
from flows.settings import Settings, WebhookSettings

pytestmark = pytest.mark.prefect

SECRET = "said-to-github-only"


class Response(NamedTuple):
    """What the receiver answers."""

    status_code: int
    text: str


Deliver = Callable[..., Response]


@pytest.fixture
def deliver(prefect_api: str, own_home: Path) -> Iterator[Deliver]:
    """Send a body as GitHub does; what the receiver answers."""
    webhooks = WebhookSettings(secret=SecretStr(SECRET), repositories={"team/app": "/srv/git/app"})
    site = receiver_site(Settings(home=own_home, webhooks=webhooks))

    def send(payload: object, *, secret: str = SECRET, delivery: str = "one") -> Response:
        body = json.dumps(payload).encode()
        signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "X-GitHub-Event": "issues",
            "X-GitHub-Delivery": delivery,
            "X-Hub-Signature-256": f"sha256={signature}",
        }
        answer = client.post("/github", content=body, headers=headers)
        return Response(answer.status_code, answer.text)

    with temporary_settings({PREFECT_API_URL: prefect_api}), TestClient(site) as client:
        yield send


def labelled(title: str) -> dict[str, object]:
    return {
        "action": "labeled",
        "label": {"name": "harness"},
        "issue": {"number": 12, "title": title, "body": "It is broken"},
        "repository": {"full_name": "team/app"},
    }


def test_a_labelled_issue_starts_its_deployment_once(deliver: Deliver, prefect_api: str) -> None:
    from flows.deployed import implement

    flow_id = httpx.post(f"{prefect_api}/flows/", json={"name": "implement"}).json()["id"]
    schema = implement.parameters.model_dump()
    made = {"name": "implement", "flow_id": flow_id, "parameter_openapi_schema": schema}
    httpx.post(f"{prefect_api}/deployments/", json=made).raise_for_status()
    answer = deliver(labelled("Crash at noon"))
    assert answer.status_code == 202, answer.text
    run_id = json.loads(answer.text)["message"].split("flow run ")[1].split(";")[0]
    run = httpx.get(f"{prefect_api}/flow_runs/{run_id}").json()
    assert run["parameters"]["repo"] == "/srv/git/app"
    assert "Crash at noon" in run["parameters"]["intent"]
    again = deliver(labelled("Crash at noon"), delivery="two")
    assert (again.status_code, "taken before" in again.text) == (403, True)


def test_a_wrong_signature_starts_nothing(deliver: Deliver) -> None:
    answer = deliver(labelled("Crash"), secret="guessed")
    assert (answer.status_code, "signature does not fit" in answer.text) == (403, True)


def test_a_delivery_may_come_again_when_nobody_could_start_it(deliver: Deliver) -> None:
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        assert deliver(labelled("While you were away")).status_code == 503
        assert deliver(labelled("While you were away")).status_code == 503


def test_a_body_without_end_is_not_waited_for(deliver: Deliver) -> None:
    assert deliver({"padding": "x" * MAX_BODY}).status_code == 413
