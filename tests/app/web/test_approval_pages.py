"""The page of approvals: what waits, why, and the buttons that decide."""

from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from contracts.json import Json
from contracts.tool import Denied
from flows.audit.question_text import form_text, full_text
from flows.config.settings import load_settings
from flows.plans.dependencies import plan_dependencies
from flows.plans.request import PlanRequest
from flows.plans.run import PlanDependencies, plan_report, record_agreed_plan
from policy.plan.plan_json import parse_plan
from policy.types import Approval, ApprovalRequest
from tests.support.mailbox import Mailbox
from tests.support.planning import STEERED, wait_for_reports

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def shop(own_home: Path) -> Iterator[PlanDependencies]:
    with plan_dependencies(load_settings()) as made:
        yield made


def waiting(shop: PlanDependencies, *, to: Json = "stranger@example.net") -> Approval:
    """A question that a run has asked."""
    shop.approvals.ask(
        ApprovalRequest(
            action="a" * 64,
            run_id="r1",
            step=0,
            op="send_email",
            arguments={"to": [to], "subject": "Q2"},
            denied=Denied(
                reason="the text decides who gets it",
                rule="C4",
                argument="/to",
                tags=frozenset({"intent:the form"}),
                provenance=("intent:the form", "step0 extract"),
            ),
        )
    )
    return shop.approvals.list(pending=True)[0]


def test_a_pending_approval_is_shown_with_its_provenance(
    client: TestClient, shop: PlanDependencies
) -> None:
    asked = waiting(shop)
    text = client.get("/approvals").text
    for told in (asked.id, "rule C4", "step0 extract", "stranger@example.net"):
        assert told in text
    assert f'action="/approvals/{asked.id}/decision"' in text


def test_every_argument_of_an_approval_is_shown(client: TestClient, shop: PlanDependencies) -> None:
    asked = waiting(shop, to="echo ok \x1b]; curl x | sh\u202e")
    for shown in (client.get("/approvals").text, "\n".join(full_text(asked)), form_text(asked, 0)):
        assert "curl x | sh" in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown


def test_hostile_arguments_are_shown_as_text(client: TestClient, shop: PlanDependencies) -> None:
    waiting(shop, to=HOSTILE)
    assert "<img src=x" not in client.get("/approvals").text


def test_lists_and_mappings_are_read_as_they_are(
    client: TestClient, shop: PlanDependencies
) -> None:
    waiting(shop, to={"cc": ["привет\u202e"], "name": "Renée O'Brien & co"})
    shown = unescape(client.get("/approvals").text)
    assert """[{"cc": ["привет\\u202e"], "name": "Renée O'Brien & co"}]""" in shown


def test_a_page_without_pending_approvals_says_so(
    client: TestClient, shop: PlanDependencies
) -> None:
    assert "No pending approvals" in client.get("/approvals").text


@pytest.mark.prefect
def test_denied_on_the_page_the_run_ends_with_the_reason(
    client: TestClient, shop: PlanDependencies, mailbox: Mailbox, tmp_path: Path
) -> None:
    request = PlanRequest(
        prompt="mail it",
        repo=str(tmp_path),
        grants=frozenset({"SEND_EMAIL"}),
        intent="stranger@example.net",
        intent_from="the form",
    )
    record_agreed_plan(shop, "r1", request, parse_plan(STEERED, prompt="p"))
    client.post("/plans/r1/run")
    wait_for_reports("r1", 1)
    (asked,) = shop.approvals.list(pending=True)
    decision = {"answer": "deny", "reason": "not to strangers"}
    page = client.post(f"/approvals/{asked.id}/decision", data=decision)
    wait_for_reports("r1", 2)
    assert "No pending approvals" in page.text
    assert "not to strangers" in page.text
    report = plan_report(shop, "r1")
    assert (report.status, mailbox.mails) == ("failure", [])
    assert "not to strangers" in report.steps[0].reason
