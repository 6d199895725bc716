"""Views in headless Chromium: the browser renders the JSON, and nothing in it acts."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from contracts.json import Json
from flows.config.settings import load_settings
from flows.execution.wiring import open_event_log
from flows.plans.dependencies import plan_dependencies
from flows.plans.request import PlanRequest
from flows.plans.state import agree_to_plan, record_draft
from memory.playbooks.library import Library
from policy.log.events import Draft
from policy.types import ApprovalRequest
from tests.support.planning import HARMLESS, planner
from tests.support.policy import WHY, draft, entity
from tests.support.web import Serve, a_run

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"


@pytest.fixture
def pages(opened: Library, own_home: Path, served: Serve) -> Iterator[str]:
    a_run(own_home / "runs", "aaaa1111")
    with served() as url:
        yield url


def test_a_run_shows_events_with_causes_and_taint(pages: str, page: Page) -> None:
    source, made = entity(f"page {HOSTILE}", "web:evil"), entity("made", "web:evil")
    body: dict[str, Json] = {"verdict": "denied", "rule": "C4", "reason": HOSTILE, "node": HOSTILE}
    with open_event_log() as log:
        log.append([draft(source, kind="source", run_id="aaaa1111")])
        log.append([draft(made, of=(source,), run_id="aaaa1111")])
        log.append([Draft(kind="decision", run_id="aaaa1111", body=body)])
    page.goto(f"{pages}/runs/aaaa1111")
    expect(page.locator("#event-2")).to_contain_text("1 (tainted)")
    page.locator("#event-2 a.tainted").click()
    assert page.url.endswith("#event-1")
    decisions = page.locator("section", has=page.get_by_role("heading", name="Decisions"))
    expect(decisions).to_contain_text(HOSTILE)
    assert page.locator(".view img, .view script").count() == 0
    assert "owned" not in page.title()


def test_a_plan_is_found_in_the_list_and_shows_steps_and_questions(
    pages: str, page: Page, tmp_path: Path
) -> None:
    with plan_dependencies(load_settings()) as opened:
        deps = replace(opened, complete=planner(HARMLESS))
        run_id = record_draft(deps, PlanRequest(prompt=f"mail it {HOSTILE}", repo=str(tmp_path)))
        agree_to_plan(deps, run_id, frozenset({"SEND_EMAIL"}))
        asked = ApprovalRequest(
            action="a", run_id=run_id, step=0, op="x", arguments={"to": HOSTILE}, denied=WHY
        )
        deps.approvals.ask(asked)
    page.goto(f"{pages}/plans")
    page.get_by_role("link", name=run_id).click()
    expect(page.get_by_role("heading", name=f"Plan {run_id}")).to_be_visible()
    titles = ("Prompt", "Steps", "Questions and answers", "Data flow", "Decisions", "Events")
    for title in titles:
        expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
    expect(page.locator(".view")).to_contain_text("send_email(")
    assert page.locator(".view img, .view script").count() == 0
    page.locator(".facts").get_by_role("link", name="x(to=").click()
    expect(page.get_by_role("heading", name="Approvals")).to_be_visible()


def test_the_renderer_itself_makes_no_markup_and_follows_no_script(pages: str, page: Page) -> None:
    def forged(route: Route) -> None:
        href, text = "javascript:document.title='owned'", HOSTILE
        rows = [[{"text": "click", "href": href}, text]]
        table = {"kind": "table", "title": text, "head": [text, text], "rows": rows}
        node = {"number": '1" onclick="x', "text": text, "tainted": True, "causes": []}
        graph = {"kind": "graph", "title": text, "nodes": [node]}
        parts = [table, graph, {"kind": "constructor"}, {"kind": text}]
        route.fulfill(json={"version": 1, "title": text, "parts": parts})

    page.route("**/views/runs/*", forged)
    page.goto(f"{pages}/runs/aaaa1111")
    expect(page.locator(".view")).to_contain_text("unknown part: constructor")
    assert page.locator(".view img, .view script, .view a").count() == 0
    assert "owned" not in page.title()


def test_a_view_that_cannot_be_made_says_why(pages: str, page: Page) -> None:
    page.route("**/views/runs/*", lambda route: route.fulfill(status=503, json={"error": "gone"}))
    page.goto(f"{pages}/runs/aaaa1111")
    expect(page.locator(".view .why")).to_have_text("This view cannot be shown: gone")


def test_without_javascript_a_view_names_its_json_and_its_command(pages: str, page: Page) -> None:
    assert page.context.browser is not None
    with page.context.browser.new_context(java_script_enabled=False) as context:
        plain = context.new_page()
        plain.goto(f"{pages}/runs/aaaa1111")
        assert "harness events export" in plain.get_by_text("A script renders this").inner_text()
