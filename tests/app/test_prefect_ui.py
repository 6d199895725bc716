"""The demo, and what a person sees of its run in the Prefect UI, in a real browser."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.support.app import Harness
from tests.support.repositories import git

pytestmark = [pytest.mark.browser, pytest.mark.docker, pytest.mark.prefect]


def test_the_demo_ends_in_a_branch_that_passes_its_tests_and_is_visible_node_by_node(
    harness: Harness, asked: Harness, prefect_api: str, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", prefect_api)
    done = harness("demo")
    assert "model: scripted/" in done.stderr
    assert "in Prefect: http" in done.stdout
    [run] = json.loads(asked("runs", "list", "--json").stdout)
    report = json.loads(asked("runs", "show", run["run_id"], "--json").stdout)
    assert (done.returncode, report["status"]) == (0, "success")
    repository = Path(report["repo"])
    assert git(repository, "diff", "--stat", "main", report["branch"]).startswith(
        "opening_hours.py | 2 +-"
    )
    git(repository, "checkout", "--quiet", report["branch"])
    tests = subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=repository, check=False)
    assert tests.returncode == 0
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
    page.get_by_text("caused by", exact=True).last.wait_for()
    page.get_by_text("tainted", exact=True).last.wait_for()
