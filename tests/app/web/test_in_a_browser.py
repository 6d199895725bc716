"""The pages in headless Chromium: with the keyboard, and with JavaScript off."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from memory.notes.notebook import Notebook
from memory.notes.types import Author, EntryFilter, ExampleContent, NoteContent
from memory.playbooks.library import Library
from memory.scope import Scope
from memory.types import PlaybookContent
from tests.support.web import Serve, a_run

pytestmark = pytest.mark.browser


@pytest.fixture
def pages(opened: Library, own_home: Path, served: Serve) -> Iterator[str]:
    opened.create(PlaybookContent(title="Rotate keys", use_case="when they are due"))
    opened.create(PlaybookContent(title="Bake bread", use_case="on Sunday"))
    a_run(own_home / "runs", "aaaa1111")
    with served() as url:
        yield url


def test_the_list_follows_what_is_typed(pages: str, page: Page) -> None:
    page.goto(f"{pages}/playbooks")
    page.get_by_label("Find").fill("rotate keys")
    page.get_by_text("Bake bread").wait_for(state="detached")
    assert "text=rotate%20keys" in page.url
    page.evaluate("sessionStorage.removeItem('htmx-history-cache')")  # as after ten more searches
    page.go_back()
    page.get_by_text("Bake bread").wait_for()
    assert page.get_by_role("navigation").count() == 1


def test_a_playbook_is_edited_in_place_with_the_keyboard(
    pages: str, page: Page, opened: Library
) -> None:
    page.goto(f"{pages}/playbooks")
    page.get_by_role("link", name="Rotate keys").press("Enter")
    page.get_by_role("link", name="Edit").press("Enter")
    page.get_by_label("What to do").fill("one at a time")
    page.get_by_role("button", name="Save").press("Enter")
    page.get_by_role("heading", name="What to do").wait_for()
    assert opened.get("rotate-keys").process == "one at a time"


def test_nothing_on_the_pages_is_refused_by_their_own_policy(pages: str, page: Page) -> None:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    for path in (
        "/",
        "/approvals",
        "/runs",
        "/runs/aaaa1111",
        "/playbooks",
        "/playbooks/rotate-keys",
    ):
        page.goto(pages + path)
    assert said == []


def test_pages_can_be_read_without_javascript(pages: str, page: Page) -> None:
    assert page.context.browser is not None
    with page.context.browser.new_context(java_script_enabled=False) as context:
        plain = context.new_page()
        plain.goto(f"{pages}/playbooks")
        plain.get_by_label("Find").fill("rotate keys")
        plain.get_by_role("button", name="Search").click()
        assert plain.get_by_text("Bake bread").count() == 0


def test_a_note_is_edited_in_its_row(pages: str, page: Page, book: Notebook) -> None:
    made = book.add(NoteContent(text="use tabs", type="Preference"))
    page.goto(f"{pages}/notes")
    page.get_by_role("link", name="edit use tabs").press("Enter")
    page.locator("textarea[name=text]").fill("use spaces")
    page.get_by_role("button", name="Save").press("Enter")
    page.locator("p.entry", has_text="use spaces").wait_for()
    assert book.get(made.id, "note").text == "use spaces"


def test_chosen_notes_are_approved_together(pages: str, page: Page, book: Notebook) -> None:
    for text in ("one", "two"):
        book.add(NoteContent(text=text), author=Author("curator", "m"))
    page.goto(f"{pages}/notes?status=Pending")
    for text in ("one", "two"):
        page.get_by_label(f"select {text}").check()
    page.get_by_role("button", name="approve").click()
    page.get_by_text("2 approved").wait_for()
    assert book.count("note", EntryFilter(status="Active")) == 2


def test_a_narrow_screen_shows_every_list_whole(pages: str, page: Page, book: Notebook) -> None:
    book.add(NoteContent(text="words " * 40, scope=Scope(agent="native", user="a" * 40)))
    book.add(ExampleContent(input="question " * 30, output="answer " * 30))
    page.set_viewport_size({"width": 390, "height": 800})
    for path in ("/", "/runs", "/runs/aaaa1111", "/playbooks", "/notes", "/examples", "/agents"):
        page.goto(pages + path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_notes_and_examples_can_be_read_without_javascript(
    pages: str, page: Page, book: Notebook
) -> None:
    made = book.add(ExampleContent(input="sales?", output="a million"))
    book.add(NoteContent(text="use tabs"))
    assert page.context.browser is not None
    with page.context.browser.new_context(java_script_enabled=False) as context:
        plain = context.new_page()
        plain.goto(f"{pages}/notes?text=tabs")
        assert plain.get_by_role("link", name="use tabs", exact=True).count() == 1
        plain.goto(f"{pages}/examples/{made.id}")
        assert plain.get_by_text("a million").count() == 2
        plain.goto(f"{pages}/preview?agent=native&task=sales")
        assert "use tabs" in plain.locator("pre").inner_text()
