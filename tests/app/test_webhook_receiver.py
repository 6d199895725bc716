"""The receiver of webhooks as GitHub meets it, with a real Prefect server behind it."""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from fastapi.testclient import TestClient
from prefect.settings import PREFECT_API_URL, temporary_settings
from pydantic import SecretStr

from app.web.webhooks import MAX_BODY_BYTES, create_receiver
from flows.config.settings import Settings, WebhookSettings
from flows.runs.home import CHECKPOINT, KEPT
from flows.runs.request import FlowRun
from flows.runs.run_record import write_record
from flows.services.check_wait import waiting_until
from flows.services.deploy import UPKEEP_PREFIX
from tests.support.flow_runs import a_blueprint
from tests.support.here import here
from tests.support.requested import requested
from tests.support.web import a_run

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
    site = create_receiver(Settings(home=own_home, webhooks=webhooks))

    def send(
        payload: object, *, secret: str = SECRET, delivery: str = "one", event: str = "issues"
    ) -> Response:
        body = json.dumps(payload).encode()
        signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "X-GitHub-Event": event,
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


def failed(check: str) -> dict[str, object]:
    run = {
        "name": check,
        "head_sha": "c0ffee",
        "conclusion": "failure",
        "check_suite": {"head_branch": "main"},
    }
    return {
        "action": "completed",
        "check_run": run,
        "repository": {"full_name": "team/app"},
    }


def deployed(api: str, name: str, schema: dict[str, object]) -> None:
    """The deployment of a flow of this name, with this form."""
    flow_id = (
        here().post(f"{api}/flows/", json={"name": name.removeprefix(UPKEEP_PREFIX)}).json()["id"]
    )
    made = {"name": name, "flow_id": flow_id, "parameter_openapi_schema": schema}
    here().post(f"{api}/deployments/", json=made).raise_for_status()


def started(answer: Response) -> str:
    """The flow run that the receiver says it started."""
    assert answer.status_code == 202, answer.text
    return str(json.loads(answer.text)["message"].split("flow run ")[1].split(";")[0])


def test_a_labelled_issue_starts_its_deployment_once(deliver: Deliver, prefect_api: str) -> None:
    from flows.deployed import implement

    deployed(prefect_api, "implement", implement.parameters.model_dump())
    run_id = started(deliver(labelled("Crash at noon")))
    run = here().get(f"{prefect_api}/flow_runs/{run_id}").json()
    assert run["parameters"]["repo"] == "/srv/git/app"
    assert "Crash at noon" in run["parameters"]["intent"]
    again = deliver(labelled("Crash at noon"), delivery="two")
    assert (again.status_code, "accepted before" in again.text) == (403, True)


def test_a_check_that_is_run_again_starts_a_run_where_the_one_before_was_lost(
    deliver: Deliver, prefect_api: str, own_home: Path
) -> None:
    from flows.deployed import fix_tests

    deployed(prefect_api, "fix-tests", fix_tests.parameters.model_dump())

    def check() -> Response:
        return deliver(failed("tests"), event="check_run")

    def end(run_id: str, state: str) -> None:
        ended = {"state": {"type": state}, "force": True}
        here().post(f"{prefect_api}/flow_runs/{run_id}/set_state", json=ended).raise_for_status()

    first = started(check())
    for state in ("RUNNING", "COMPLETED", "CANCELLED", "FAILED"):
        end(first, state)
        assert check().status_code == 403, state
    end(first, "CRASHED")
    second = started(check())
    assert check().status_code == 403, "it is under way"
    end(second, "FAILED")
    a_run(own_home / "runs", second[-8:])
    assert check().status_code == 403, "its nodes were done"
    (own_home / "runs" / second[-8:] / CHECKPOINT).write_text("{}")
    assert started(check()) not in (first, second)


def test_a_wrong_signature_starts_nothing(deliver: Deliver) -> None:
    answer = deliver(labelled("Crash"), secret="guessed")
    assert (answer.status_code, "signature does not fit" in answer.text) == (403, True)


def test_a_delivery_may_come_again_when_nobody_could_start_it(deliver: Deliver) -> None:
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        assert deliver(labelled("While you were away")).status_code == 503
        assert deliver(labelled("While you were away")).status_code == 503


def test_a_body_without_end_is_not_waited_for(deliver: Deliver) -> None:
    assert deliver({"padding": "x" * MAX_BODY_BYTES}).status_code == 413


RUN_BRANCH = "harness/3f9a0c1d/fix-tests"


@pytest.fixture
def waiting(prefect_api: str, own_home: Path) -> str:
    """A flow run that waits for checks for an hour; its branch is `RUN_BRANCH`."""
    flow_id = here().post(f"{prefect_api}/flows/", json={"name": "waits"}).json()["id"]
    run = here().post(f"{prefect_api}/flow_runs/", json={"flow_id": flow_id, "state": None}).json()
    later = waiting_until(datetime.now(UTC) + timedelta(hours=1))
    state = {
        "type": "SCHEDULED",
        "name": later.name,
        "message": later.message,
        "state_details": {"scheduled_time": str(later.state_details.scheduled_time)},
    }
    asked = {"state": state, "force": True}
    here().post(f"{prefect_api}/flow_runs/{run['id']}/set_state", json=asked).raise_for_status()
    request = requested(a_blueprint("true"), own_home)
    write_record(own_home / "runs", "3f9a0c1d", request, FlowRun(run["id"], ""))
    return str(run["id"])


def is_due(api: str, flow_run: str) -> bool:
    shown = here().get(f"{api}/flow_runs/{flow_run}").json()["state"]["state_details"]
    return datetime.fromisoformat(shown["scheduled_time"]) <= datetime.now(UTC)


def test_a_check_of_github_or_gitea_ends_the_wait_of_its_run(
    deliver: Deliver, prefect_api: str, waiting: str
) -> None:
    other = {"repository": {"full_name": "team/app"}, "check_suite": {"head_branch": "main"}}
    assert deliver(other, event="check_suite").status_code == 202
    assert not is_due(prefect_api, waiting)
    ended = {**other, "check_suite": {"head_branch": RUN_BRANCH}}
    assert "goes on" in deliver(ended, event="check_suite").text
    assert is_due(prefect_api, waiting)


def test_a_comment_starts_the_look_for_comments_while_a_run_waits_for_some(
    deliver: Deliver, prefect_api: str, own_home: Path
) -> None:
    deployed(prefect_api, "zz-answer-comments", {"type": "object", "properties": {}})
    comment = {
        "action": "created",
        "issue": {"number": 1, "pull_request": {"url": "…"}},
        "comment": {"body": "/harness repo=/etc", "user": {"login": "mallory"}},
        "repository": {"full_name": "team/app"},
    }
    assert "nothing is started" in deliver(comment, event="issue_comment").text
    folder = own_home / "runs" / "3f9a0c1d"
    folder.mkdir(parents=True)
    (folder / KEPT).write_text("{}")
    assert deliver(comment, event="issue_comment", secret="guessed").status_code == 403
    run = here().get(f"{prefect_api}/flow_runs/{started(deliver(comment))}").json()
    assert run["parameters"] == {}  # the text of the delivery goes nowhere


def test_a_pipeline_of_gitlab_ends_the_wait_of_its_run_if_the_token_is_right(
    prefect_api: str, own_home: Path, waiting: str
) -> None:
    webhooks = WebhookSettings(secret=SecretStr(SECRET), repositories={"team/app": "/srv/git/app"})
    site = create_receiver(Settings(home=own_home, webhooks=webhooks))
    ended = {
        "object_kind": "pipeline",
        "object_attributes": {"ref": RUN_BRANCH, "status": "failed"},
        "project": {"path_with_namespace": "team/app"},
    }
    with temporary_settings({PREFECT_API_URL: prefect_api}), TestClient(site) as client:
        for token in ("", "guessed"):
            refused = client.post("/gitlab", json=ended, headers={"X-Gitlab-Token": token})
            assert refused.status_code == 403
        assert not is_due(prefect_api, waiting)
        answer = client.post("/gitlab", json=ended, headers={"X-Gitlab-Token": SECRET})
    assert "goes on" in answer.text
    assert is_due(prefect_api, waiting)
