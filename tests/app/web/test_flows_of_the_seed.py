"""The seed's four flows, with the real pages in Chromium and agents that are really run."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
from playwright.sync_api import Page

from blueprints.dsl import agentic, blueprint
from contracts.run import RunReport
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from memory.notes.agent_settings import NoteStrategy
from memory.notes.notebook import Notebook
from memory.notes.types import NoteContent
from tests.support.flows import DONE, Ask
from tests.support.web import Serve

pytestmark = pytest.mark.browser

Run = Callable[..., RunReport]


@pytest.fixture
def pages(book: Notebook, served: Serve) -> Iterator[str]:
    with served() as url:
        yield url


@pytest.fixture
def run(shop: RunDependencies, ask: Ask, model: Callable[..., str]) -> Run:
    """Do a run of one agent; options say for whom."""

    def run_it(run_id: str, *, intent: str = "", **whose: str) -> RunReport:
        node = agentic("think", "Think", prompt=lambda ctx: ctx.intent)
        asked = ask(blueprint("one", "One", [node]), model=model(DONE))
        return run_blueprint(asked.changed(intent=intent, **whose), shop, run_id=run_id)

    return run_it


def prompt_of(own_home: Path, run_id: str) -> str:
    """All that the agent of a run was told before it said anything."""
    lines = (own_home / "runs" / run_id / "trajectory.jsonl").read_text().splitlines()
    return next(line for line in lines if json.loads(line)["kind"] == "request")


def write_note(page: Page, pages: str, text: str, **chosen: str) -> None:
    page.goto(f"{pages}/notes/new")
    page.locator("[name=text]").fill(text)
    page.locator("[name=type]").select_option(chosen.get("type", "Context"))
    page.get_by_label("Company").fill(chosen.get("company", ""))
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="Edit").wait_for()


def test_a_note_written_by_hand_is_in_the_next_prompt(
    pages: str, page: Page, run: Run, own_home: Path
) -> None:
    write_note(page, pages, "answer in bullet points", type="Preference")
    report = run("aaaa1111")
    assert "answer in bullet points" in prompt_of(own_home, "aaaa1111")
    page.goto(f"{pages}/runs/aaaa1111")
    page.get_by_role("link", name="answer in bullet points").click()
    assert page.url.endswith(report.surfaced.notes[0])


def test_what_a_run_did_becomes_an_example_for_similar_runs(
    pages: str, page: Page, run: Run, own_home: Path
) -> None:
    run("aaaa1111", intent="sum up the sales")
    page.goto(f"{pages}/runs/aaaa1111")
    page.get_by_label("Rating").fill("95")
    page.get_by_role("button", name="Rate").click()
    page.get_by_role("link", name="Save as example").click()
    page.get_by_label("Output").fill("by region, the largest first")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("score 95").first.wait_for()
    run("bbbb2222", intent="sum up the sales again")
    assert "by region, the largest first" in prompt_of(own_home, "bbbb2222")


def test_each_strategy_is_chosen_on_the_page_and_holds(
    pages: str, page: Page, run: Run, own_home: Path, book: Notebook
) -> None:
    for text in ("Apples are red", "Pears are green"):
        book.add(NoteContent(text=text))
    shown = {}
    for number, strategy in enumerate(get_args(NoteStrategy)):
        page.goto(f"{pages}/agents/native")
        page.get_by_label("Maximum").first.fill("1")
        page.get_by_label("Strategy").first.select_option(strategy)
        page.get_by_role("button", name="Save").click()
        page.wait_for_load_state()
        (given,) = run(f"aaaa000{number}").surfaced.notes
        shown[strategy] = book.get(given, "note").text
    assert shown == {
        "Relevant": "Pears are green",
        "Recent": "Pears are green",
        "All": "Apples are red",
    }


def test_a_constraint_of_a_company_reaches_all_its_users_and_nobody_else(
    pages: str, page: Page, run: Run, own_home: Path
) -> None:
    write_note(page, pages, "never name customers", type="Constraint", company="acme")
    run("aaaa1111", user="ann", company="acme")
    run("bbbb2222", user="bob", company="acme")
    run("cccc3333", user="ann", company="other")
    run("dddd4444")
    told = [r for r in ("aaaa1111", "bbbb2222", "cccc3333", "dddd4444")
            if "never name customers" in prompt_of(own_home, r)]  # fmt: skip
    assert told == ["aaaa1111", "bbbb2222"]
