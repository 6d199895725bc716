"""The HTTP API, asked as a program on this machine asks."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # ships no types
from starlette.testclient import TestClient

from app.web import api
from app.web.api_models import PlanAnswer
from app.web.serve import create_app
from tests.support.mailbox import Mailbox
from tests.support.planning import FORM, HARMLESS, PROMPT, STEERED, shop_of, wait_for_reports
from tests.support.web import HERE

OpenClient = Callable[..., TestClient]
GRANTED = ["SEND_EMAIL"]


@pytest.fixture
def client_of(own_home: Path) -> OpenClient:
    """A client of pages whose planner writes these plans."""

    def opened(*plans: str) -> TestClient:
        made = create_app()
        made.dependency_overrides[api.open_dependencies] = shop_of(*plans)
        return TestClient(made, base_url=HERE, raise_server_exceptions=False)

    return opened


def asked(folder: Path, **more: object) -> dict[str, object]:
    return {"prompt": PROMPT, "repo": str(folder), **more}


def plan(client: TestClient, id_: str, *, reported: int) -> PlanAnswer:
    """The plan, after so many processes that went on with it have ended."""
    wait_for_reports(id_, reported)
    return PlanAnswer.model_validate(client.get(f"/plans/{id_}").json())


def test_a_prompt_becomes_a_plan_that_waits_for_consent(
    client_of: OpenClient, tmp_path: Path
) -> None:
    client = client_of(HARMLESS)
    answer = client.post("/prompts", json=asked(tmp_path))
    made = answer.json()
    assert answer.status_code == 201
    assert (made["status"], made["agreed"]) == ("planned", False)
    assert made["plan"]["steps"][0]["op"] == "send_email"
    assert made["missing_grants"] == GRANTED
    assert client.get(answer.headers["location"]).json() == made


def test_plans_are_listed_newest_first(client_of: OpenClient, tmp_path: Path) -> None:
    client = client_of(HARMLESS, STEERED)
    assert client.get("/plans").json() == []
    made = [client.post("/prompts", json=asked(tmp_path, intent=FORM)).json() for _ in range(2)]
    listed = client.get("/plans").json()
    assert [one["id"] for one in listed] == [one["id"] for one in reversed(made)]
    assert {name: listed[0][name] for name in ("status", "agreed", "steps", "prompt")} == {
        "status": "planned", "agreed": False, "steps": 1, "prompt": PROMPT,
    }  # fmt: skip
    assert len(client.get("/plans?limit=1").json()) == 1


def test_a_prompt_may_permit_changes_of_protected_files(
    client_of: OpenClient, tmp_path: Path
) -> None:
    client = client_of(HARMLESS)
    body = asked(tmp_path, allow_change=[".github/workflows/*"])
    made = client.post("/prompts", json=body).json()
    assert client.get(f"/plans/{made['id']}").json()["allow_change"] == [".github/workflows/*"]


@pytest.mark.prefect
@pytest.mark.usefixtures("from_nothing")
def test_a_plan_runs_in_a_process_of_its_own_once(
    client_of: OpenClient, tmp_path: Path, mailbox: Mailbox
) -> None:
    client = client_of(HARMLESS)
    made = client.post("/prompts", json=asked(tmp_path)).json()
    for _ in range(2):
        started = client.post(f"/plans/{made['id']}/run", json={"grants": GRANTED})
        assert (started.status_code, started.json()["status"]) == (202, "started")
    assert plan(client, made["id"], reported=2).status == "success"
    assert [mail.to for mail in mailbox.mails] == [["team@example.org"]]


@pytest.mark.prefect
def test_a_stopped_step_waits_for_a_decision_and_then_continues(
    client_of: OpenClient, tmp_path: Path, mailbox: Mailbox
) -> None:
    client = client_of(STEERED)
    body = asked(tmp_path, grants=GRANTED, intent=FORM, intent_from="the form")
    made = client.post("/prompts", json=body).json()
    client.post(f"/plans/{made['id']}/run")
    stopped = plan(client, made["id"], reported=1)
    (waiting,) = stopped.approvals
    assert stopped.status == "waiting"
    assert (waiting.rule, waiting.provenance) == ("C4", ["intent:the form"])
    assert mailbox.mails == []
    decided = client.post(f"/approvals/{waiting.id}", json={"decision": "approve"})
    assert (decided.status_code, decided.json()["decided_by"]) == (202, api.DECIDED_BY)
    assert plan(client, made["id"], reported=2).status == "success"
    assert [mail.to for mail in mailbox.mails] == [[FORM]]
    again = client.post(f"/approvals/{waiting.id}", json={"decision": "approve"})
    assert again.status_code == 409
    assert again.json()["error"].startswith(f"approval {waiting.id} is used by {api.DECIDED_BY}")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/prompts", {"prompt": "x", "repo": "/nowhere/at/all"}, 400),
        ("POST", "/prompts", {"prompt": " ", "repo": "/"}, 422),
        ("POST", "/prompts", {"prompt": "x", "repo": "/", "allow_change": ["/etc"]}, 400),
        ("POST", "/prompts", {"prompt": "x", "repo": "/", "token": "y"}, 422),
        ("GET", "/plans/none", None, 404),
        ("POST", "/plans/none/run", {}, 404),
        ("POST", "/approvals/none", {"decision": "approve"}, 404),
        ("POST", "/approvals/none", {"decision": "maybe"}, 422),
        ("POST", "/prompts", {"prompt": "x", "repo": "~nosuchuser/x"}, 400),
        ("GET", "/events?after=-1", None, 422),
        ("GET", f"/events?after={10**20}", None, 422),
    ],
)
def test_an_error_is_one_line_of_json(
    client_of: OpenClient, method: str, path: str, body: object, status: int
) -> None:
    answer = client_of().request(method, path, json=body)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert "\n" not in answer.json()["error"]


def test_an_unknown_id_is_404_and_lists_no_others(client_of: OpenClient) -> None:
    answer = client_of().post("/approvals/none", json={"reason": "it is fine"})
    assert answer.json() == {"error": "decision: Field required"}


def test_a_body_that_is_no_json_is_named(client_of: OpenClient) -> None:
    headers = {"content-type": "application/json"}
    answer = client_of().post("/prompts", content='{"prompt": x}', headers=headers)
    assert answer.status_code == 422
    assert answer.json() == {"error": "the body is not JSON: Expecting value at character 11"}


def test_a_planner_that_writes_no_plan_is_refused(client_of: OpenClient, tmp_path: Path) -> None:
    answer = client_of(*["{"] * 3).post("/prompts", json=asked(tmp_path))
    assert answer.status_code == 400
    assert "plan" in answer.json()["error"]


def test_a_bug_is_reported_as_json_without_a_traceback(client_of: OpenClient) -> None:
    client = client_of()  # its planner has nothing left to say
    answer = client.post("/prompts", json={"prompt": "x", "repo": "/tmp"})
    assert answer.status_code == 500
    assert answer.json() == {
        "error": "IndexError: a bug in Harness; the log of the web server has the traceback"
    }


def test_another_site_starts_nothing(client_of: OpenClient, tmp_path: Path) -> None:
    headers = {"origin": "https://evil.example"}
    client = client_of(HARMLESS)
    assert client.post("/prompts", json=asked(tmp_path), headers=headers).status_code == 403


def test_the_description_holds_these_routes_and_no_page(client_of: OpenClient) -> None:
    described = client_of().get("/openapi.json").json()
    assert sorted(described["paths"]) == [
        "/approvals/{id}",
        "/events",
        "/plans",
        "/plans/{id}",
        "/plans/{id}/run",
        "/prompts",
        "/views/plans",
        "/views/plans/{id}",
        "/views/runs/{id}",
        "/views/schema.json",
    ]
    answer = described["paths"]["/plans/{id}"]["get"]["responses"]
    assert answer["200"]["content"]["application/json"]["schema"]["$ref"].endswith("PlanAnswer")
    assert json.dumps(described).count("HTTPValidationError") == 0


def test_a_browser_gets_a_page_where_a_program_gets_json(
    client_of: OpenClient, tmp_path: Path
) -> None:
    client = client_of(HARMLESS)
    made = client.post("/prompts", json=asked(tmp_path)).json()
    for path in ("/plans", f"/plans/{made['id']}"):
        page = client.get(path, headers={"accept": "text/html,*/*;q=0.8"})
        assert page.headers["content-type"].startswith("text/html")
        assert f'data-view="/views{path}"' in page.text
        assert client.get(path).headers["content-type"] == "application/json"


def test_views_are_json_by_a_published_schema(client_of: OpenClient, tmp_path: Path) -> None:
    client = client_of(HARMLESS)
    made = client.post("/prompts", json=asked(tmp_path)).json()
    checker = Draft202012Validator(client.get("/views/schema.json").json())
    for path in ("/views/plans", f"/views/plans/{made['id']}", f"/views/runs/{made['id']}"):
        assert not list(checker.iter_errors(client.get(path).json()))
    assert client.get("/views/runs/none").status_code == 404
    assert client.get("/views/plans/none").status_code == 404
