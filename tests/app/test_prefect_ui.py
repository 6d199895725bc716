"""What a person sees of a run in the Prefect UI, in a real browser."""

import json

import pytest
from playwright.sync_api import Page

from tests.app.conftest import Harness

pytestmark = [pytest.mark.browser, pytest.mark.docker, pytest.mark.prefect]


def test_a_run_is_visible_node_by_node_with_its_report(
    harness: Harness, prefect_api: str, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", prefect_api)
    report = json.loads(harness("demo", "--json").stdout)
    page.goto(report["flow_run_url"])
    page.get_by_text("Task Runs", exact=True).click()
    for node in ("tools", "project", "reproduce", "fix", "verify", "verify/test (attempt 1)"):
        page.get_by_role("link", name=node, exact=True).wait_for()
    page.get_by_text("Artifacts", exact=True).click()
    page.locator("a", has_text=f"report-{report['run_id']}").first.click()
    page.get_by_role("heading", name="fix-tests: success").last.wait_for()
    assert "return any(span.start <= hour < span.end" in page.inner_text("body")
    page.goto(report["flow_run_url"])
    page.get_by_text("Artifacts", exact=True).click()
    page.locator("a", has_text=f"events-{report['run_id']}").first.click()
    page.get_by_role("heading", name="Data flow").last.wait_for()
    picture = page.locator("img[src^='data:image/svg']").last
    assert picture.evaluate("image => image.complete && image.naturalWidth") > 200
