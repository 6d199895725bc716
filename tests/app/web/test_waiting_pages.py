"""What waits for a person: the dashboard, the menu, and the page of lessons."""

from starlette.testclient import TestClient

from memory.notes.notebook import Notebook
from memory.notes.types import Author, NoteContent
from memory.playbooks.library import Library
from memory.playbooks.recall import recall_playbooks
from memory.types import Execution, PlaybookContent, Reflection, StepResult
from tests.support.memory_runs import SHOW_ALL

HOSTILE = "<script>alert(1)</script>"


def teach(library: Library, run_id: str, title: str = "") -> Execution:
    """Record a failed run whose reflection waits."""
    step = StepResult(name="check", outcome="failure", output=HOSTILE)
    said = Reflection(improvements=(f"build first {HOSTILE}",), title=title)
    library.record_execution(
        Execution(
            run_id=run_id, outcome="failure", task="ship", step_results=(step,), reflection=said
        )
    )
    return next(one for one in library.waiting_reflections() if one.run_id == run_id)


def test_the_dashboard_and_the_menu_count_what_waits(
    client: TestClient, opened: Library, book: Notebook
) -> None:
    assert "Nothing waits for a decision" in client.get("/").text
    teach(opened, "r1")
    opened.create(PlaybookContent(title="draft", status="draft"))
    for text in ("a", "b"):
        book.add(NoteContent(text=text), author=Author("curator", "m"))
    shown = client.get("/").text
    for link in (
        '<a href="/lessons">1 run with lessons</a>',
        '<a href="/notes?status=Pending">2 pending notes</a>',
        '<a href="/playbooks">1 draft of a playbook</a>',
    ):
        assert link in shown
    menu = client.get("/menu", params={"page": "/notes"}).text
    assert 'title="waiting for you">2</span>' in menu
    assert 'href="/notes" aria-current="page"' in menu
    assert "hx-get" not in menu  # or it would load itself for ever


def test_a_lesson_is_shown_with_its_evidence_and_accepted(
    client: TestClient, opened: Library
) -> None:
    one = teach(opened, "r1", title="Ship it")
    shown = client.get("/lessons").text
    for text in ("New playbook: Ship it", "build first &lt;script&gt;", "failure: ship",
                 "<pre>&lt;script&gt;", "check failed"):  # fmt: skip
        assert text in shown
    client.post(f"/lessons/{one.id}", data={"answer": "accept"})
    assert [lesson.run_id for lesson in opened.get("ship-it").lessons] == ["r1"]
    assert "No lesson waits" in client.get("/lessons").text


def test_a_refused_lesson_is_gone(client: TestClient, opened: Library) -> None:
    one = teach(opened, "r1")
    client.post(f"/lessons/{one.id}", data={"answer": "refuse"})
    assert (opened.waiting_reflections(), opened.list()) == ([], [])


def test_too_few_runs_get_no_chart(client: TestClient, opened: Library) -> None:
    opened.create(PlaybookContent(title="ship"))
    recall_playbooks(opened, run_id="r1", task="ship", options=SHOW_ALL)
    shown = client.get("/").text
    assert "No chart yet: too few runs" in shown
    assert "Success with memory" not in shown


def test_a_playbook_is_deleted_if_it_has_the_displayed_version(
    client: TestClient, opened: Library
) -> None:
    made = opened.create(PlaybookContent(title="ship"))
    gone = f"/playbooks/{made.id}/delete"
    assert client.post(gone, data={"version": 7}).status_code == 409
    assert "1 deleted" in client.post(gone, data={"version": 1}).text
    assert opened.list() == []
