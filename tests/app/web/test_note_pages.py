from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from starlette.testclient import TestClient

from memory.notes.notebook import Notebook
from memory.notes.types import Author, ExampleContent, NoteContent, NoteType, ReviewFlag
from memory.scope import Scope

HOSTILE = "<script>alert(1)</script>{{ 7 * 7 }}"


def note(**given: object) -> dict[str, object]:
    return {"text": "t", "type": "Context", "status": "Active", "version": 1, **given}


def example(**given: object) -> dict[str, object]:
    return {"input": "i", "output": "o", "score": 90, "status": "Active", "version": 1, **given}


def test_empty_lists_say_what_to_do(client: TestClient, book: Notebook) -> None:
    assert "Write a note" in client.get("/notes").text
    assert "Write an example" in client.get("/examples").text


def test_a_note_is_added_with_its_scope(client: TestClient, book: Notebook) -> None:
    given = note(text="one\r\ntwo", type="Constraint", company="acme", until="2030-01-31")
    assert client.post("/notes", data=given).status_code == 200
    (made,) = book.list("note")
    assert (made.text, made.type, made.scope) == ("one\ntwo", "Constraint", Scope(company="acme"))
    assert made.expires_at is not None
    assert made.expires_at.date().isoformat() == "2030-01-31"


def test_notes_are_found_by_type_scope_status_and_text(client: TestClient, book: Notebook) -> None:
    book.add(NoteContent(text="for ann", type="Preference", scope=Scope(user="ann")))
    book.add(NoteContent(text="for all"), author=Author("curator", "m"))
    for asked, hidden in (
        ({"type": "Preference"}, "for all"),
        ({"scope": "everyone"}, "for ann"),
        ({"status": "Pending"}, "for ann"),
        ({"text": "ann"}, "for all"),
    ):
        assert f">{hidden}</a>" not in client.get("/notes", params=asked).text


def test_the_chosen_ones_are_approved_or_revoked_together(
    client: TestClient, book: Notebook
) -> None:
    curator = Author("curator", "m")
    ids = [book.add(NoteContent(text=text), author=curator).id for text in ("a", "b", "c")]
    client.post("/notes/status", data={"status": "Active", "chosen": [f"{i}@1" for i in ids[:2]]})
    assert [book.get(id_).status for id_ in ids] == ["Active", "Active", "Pending"]
    seen = [f"{id_}@{book.get(id_).version}" for id_ in ids]
    client.post("/notes/status", data={"status": "Revoked", "chosen": seen})
    assert {book.get(id_).status for id_ in ids} == {"Revoked"}


def test_a_bulk_approval_keeps_the_filter_and_says_what_it_did(
    client: TestClient, book: Notebook
) -> None:
    made = book.add(NoteContent(text="a"), author=Author("curator", "m"))
    given = {"status": "Active", "chosen": f"{made.id}@1", "back": "status=Pending&user=ann&x=y"}
    answer = client.post("/notes/status", data=given)
    assert (answer.url.params["status"], answer.url.params["user"]) == ("Pending", "ann")
    assert "x" not in answer.url.params
    assert ">1 approved</p>" in answer.text
    none = {"status": "Active", "back": "page=zero"}
    assert client.post("/notes/status", data=none).status_code == 200


def test_notes_are_filtered_by_user_and_company_and_counted(
    client: TestClient, book: Notebook
) -> None:
    book.add(NoteContent(text="of ann", scope=Scope(user="ann")))
    book.add(NoteContent(text="of acme", scope=Scope(company="acme")))
    assert "<p>2 notes</p>" in client.get("/notes").text
    of_ann = client.get("/notes", params={"user": "ann"}).text
    assert ("of ann" in of_ann, "of acme" in of_ann, "<p>1 note</p>" in of_ann) == (
        True,
        False,
        True,
    )
    assert "of ann" not in client.get("/notes", params={"company": "acme"}).text


def test_a_note_is_deleted_if_it_has_the_displayed_version(
    client: TestClient, book: Notebook
) -> None:
    made = book.add(NoteContent(text="a"))
    assert f'action="/notes/{made.id}/delete"' in client.get(f"/notes/{made.id}").text
    book.edit(replace(made, text="b"))
    gone = f"/notes/{made.id}/delete"
    assert client.post(gone, data={"version": 1}).status_code == 409
    assert "1 deleted" in client.post(gone, data={"version": 2}).text
    assert book.count("note") == 0


def test_a_proposal_is_shown_with_its_evidence(client: TestClient, book: Notebook) -> None:
    curator = Author("curator", "m")
    made = book.add(NoteContent(text="a"), author=curator, evidence=f"said {HOSTILE}")
    other = book.add(NoteContent(text="b"), author=curator)
    assert "<q>said &lt;script&gt;" in client.get(f"/notes/{made.id}").text
    assert "no literal quote from the run" in client.get(f"/notes/{other.id}").text


def test_a_new_note_from_a_run_is_cancelled_to_its_run(client: TestClient, book: Notebook) -> None:
    assert 'href="/notes">Cancel' in client.get("/notes/new").text
    assert 'href="/runs/r1">Cancel' in client.get("/notes/new?source_run=r1").text


def test_only_displayed_versions_are_approved(client: TestClient, book: Notebook) -> None:
    curator = Author("curator", "m")
    one, two = (book.add(NoteContent(text=text), author=curator) for text in ("a", "b"))
    book.edit(replace(one, text="harmless no more"))
    chosen = {"status": "Active", "chosen": [f"{one.id}@1", f"{two.id}@1"]}
    answer = client.post("/notes/status", data=chosen)
    assert (answer.status_code, "harmless no more" in answer.text) == (409, True)
    assert (book.get(one.id).status, book.get(two.id).status) == ("Pending", "Active")


def test_nothing_but_an_approval_approves_and_nothing_but_a_revocation_revokes(
    client: TestClient, book: Notebook
) -> None:
    made = book.add(NoteContent(text="kept"))
    answer = client.post("/notes/status", data={"status": "Pending", "chosen": f"{made.id}@1"})
    assert (answer.status_code, book.get(made.id).status) == (422, "Active")


def test_only_the_displayed_change_is_undone(client: TestClient, book: Notebook) -> None:
    one = book.add(NoteContent(text="one"))
    two = book.edit(replace(one, text="two"))
    book.edit(replace(two, text="three"))
    assert client.post(f"/notes/{one.id}/undo", data={"version": 2}).status_code == 409
    assert book.get(one.id, "note").text == "three"


def test_a_stale_change_is_refused_and_the_form_keeps_the_text(
    client: TestClient, book: Notebook
) -> None:
    made = book.add(NoteContent(text="first"))
    book.edit(replace(made, text="theirs"))
    answer = client.post(f"/notes/{made.id}", data=note(text="mine"))
    assert (answer.status_code, ">mine</textarea>" in answer.text) == (409, True)
    assert book.get(made.id, "note").text == "theirs"
    again = client.post(f"/notes/{made.id}", data=note(text="mine", version=2))
    assert again.status_code == 200
    assert book.get(made.id, "note").text == "mine"


def test_a_stale_change_is_refused_after_another_error_too(
    client: TestClient, book: Notebook
) -> None:
    made = book.add(NoteContent(text="first"))
    book.edit(replace(made, text="theirs"))
    answer = client.post(f"/notes/{made.id}", data=note(text="mine", user="a\u202eb"))
    assert 'name="version" value="1"' in answer.text
    assert client.post(f"/notes/{made.id}", data=note(text="mine")).status_code == 409
    assert book.get(made.id, "note").text == "theirs"


def test_an_edit_in_the_list_is_a_row(client: TestClient, book: Notebook) -> None:
    made = book.add(NoteContent(text="first"))
    row = client.get(f"/notes/{made.id}/edit", headers={"hx-request": "true"}).text
    assert row.startswith("<td")


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("/notes", note(text="")),
        ("/notes", note(text="x" * 5000)),
        ("/notes", note(agent="nobody")),
        ("/examples", example(score=101)),
        ("/examples", example(output="")),
        ("/examples", example(user="a\x00b")),
    ],
)
def test_rejected_content_is_explained_in_the_form(
    client: TestClient, book: Notebook, path: str, given: dict[str, object]
) -> None:
    answer = client.post(path, data=given)
    assert (answer.status_code, 'role="alert"' in answer.text) == (409, True)
    assert (book.count("note"), book.count("example")) == (0, 0)


def test_hostile_text_is_shown_as_text(client: TestClient, book: Notebook) -> None:
    scope = Scope(user=HOSTILE, company=HOSTILE)
    one = book.add(NoteContent(text=HOSTILE, scope=scope), source_run="r1")
    two = book.add(ExampleContent(input=HOSTILE, output=HOSTILE, scope=scope))
    seen = {"agent": "native", "user": HOSTILE, "company": HOSTILE, "task": HOSTILE}
    pages = ["/notes", f"/notes/{one.id}", f"/notes/{one.id}/edit", "/examples"]
    pages += [f"/examples/{two.id}", f"/examples/{two.id}/edit"]
    texts = [client.get(path).text for path in pages]
    texts.append(client.get("/preview", params=seen).text)
    for text in texts:
        assert "<script>alert" not in text
        assert "{{ 7 * 7 }}" in text


def test_hostile_flags_types_and_history_are_shown_as_text(
    client: TestClient, book: Notebook
) -> None:
    book.types.save(NoteType(name=HOSTILE, type="Context", priority=1, description=HOSTILE))
    other = book.add(NoteContent(text=HOSTILE))
    flag = ReviewFlag("contradicts", other.id, HOSTILE)
    one = book.add(NoteContent(text=HOSTILE, note_type=HOSTILE), flags=(flag,))
    book.edit(replace(one, text=f"{HOSTILE} again"), author=Author("person", HOSTILE))
    for path in ("/note-types", f"/notes/{one.id}", f"/notes/{one.id}/edit"):
        text = client.get(path).text
        assert "<script>alert" not in text
        assert "{{ 7 * 7 }}" in text


def test_expired_and_flagged_notes_are_marked_and_can_be_approved(
    client: TestClient, book: Notebook
) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    one = book.add(NoteContent(text="t", expires_at=past), flags=(ReviewFlag("near", "0" * 36),))
    for path in ("/notes", f"/notes/{one.id}"):
        assert '<span class="state over">over</span>' in client.get(path).text
    assert "Keep unchanged" in client.get(f"/notes/{one.id}").text
    client.post("/notes/status", data={"status": "Active", "chosen": f"{one.id}@1"})
    assert "Keep unchanged" not in client.get(f"/notes/{one.id}").text


def test_an_example_is_changed_and_undone(client: TestClient, book: Notebook) -> None:
    made = book.add(ExampleContent(input="i", output="o"))
    client.post(f"/examples/{made.id}", data=example(output="better", score=95))
    assert (book.get(made.id, "example").output, book.get(made.id, "example").score) == (
        "better",
        95,
    )
    client.post(f"/examples/{made.id}/undo", data={"version": 2})
    assert book.get(made.id, "example").output == "o"


def test_a_note_type_of_ones_own_comes_and_goes(client: TestClient, book: Notebook) -> None:
    client.post("/note-types", data={"name": "Runbook", "type": "Context", "priority": 70})
    assert "Runbook" in client.get("/notes/new").text
    client.post("/note-types/remove", data={"name": "Runbook"})
    assert "Runbook" not in [one.name for one in book.types.list()]


def test_a_preview_shows_the_notes_of_the_agent(client: TestClient, book: Notebook) -> None:
    book.add(NoteContent(text="never touch main", type="Constraint", scope=Scope(company="acme")))
    seen = {"agent": "native", "company": "acme", "task": "anything"}
    assert "| never touch main" in client.get("/preview", params=seen).text
    other = {**seen, "company": "other"}
    assert "never touch main" not in client.get("/preview", params=other).text


def test_settings_of_an_agent_can_be_previewed_before_saving(
    client: TestClient, book: Notebook
) -> None:
    for text in ("first", "second"):
        book.add(NoteContent(text=text, type="Constraint"))
    one = {"inject_notes": "true", "max_notes": 1, "note_strategy": "Recent"}
    text = client.post("/agents/native/preview", data=one).text
    assert ("| second" in text, "| first" in text) == (True, False)
    assert book.agent_settings("native").max_notes == 5
    client.post("/agents/native", data=one)
    assert (
        book.agent_settings("native").max_notes,
        book.agent_settings("native").inject_examples,
    ) == (1, False)


def test_settings_out_of_range_are_refused(client: TestClient, book: Notebook) -> None:
    answer = client.post("/agents/native", data={"inject_notes": "true", "max_notes": 21})
    assert (answer.status_code, "from 1 to 20" in answer.text) == (409, True)


@pytest.mark.parametrize(
    ("path", "given", "why"),
    [
        ("/examples", example(input="typed", score="1e2"), "score: "),
        ("/examples", example(input="typed", score=""), "score: it is empty"),
        ("/notes", note(text="typed", until="2026-13-45"), "until: "),
        ("/note-types", {"name": "typed", "type": "Context", "priority": "high"}, "priority: "),
        ("/note-types", {"name": "typed", "type": "Context", "priority": "5000"}, "priority"),
        ("/agents/native", {"max_notes": "typed"}, "max_notes: "),
        ("/agents/native", {"max_notes": "", "task": "typed"}, "max_notes: "),
        ("/agents/native/preview", {"max_notes": "99", "task": "typed"}, "max_notes"),
    ],
)
def test_an_invalid_value_is_explained_in_the_form_with_the_typed_values(
    client: TestClient, book: Notebook, path: str, given: dict[str, object], why: str
) -> None:
    answer = client.post(path, data=given)
    assert answer.status_code in {409, 422}
    assert (why in answer.text, 'role="alert"' in answer.text) == (True, True)
    assert "typed" in answer.text
    assert (book.count("note"), book.count("example")) == (0, 0)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/notes?page={10**20}", 422),
        (f"/examples?page={10**20}", 422),
        (f"/notes?text={'a+' * 1200}", 200),
        (f"/playbooks?text={'a+' * 1200}", 200),
    ],
)
def test_values_too_large_for_a_database_are_no_outage(
    client: TestClient, book: Notebook, path: str, status: int
) -> None:
    assert client.get(path).status_code == status


def test_a_version_too_large_for_a_database_is_explained_in_the_form(
    client: TestClient, book: Notebook
) -> None:
    made = book.add(NoteContent(text="first"))
    answer = client.post(f"/notes/{made.id}", data=note(text="typed", version=10**20))
    assert (answer.status_code, ">typed</textarea>" in answer.text) == (422, True)


def test_behind_the_last_page_the_way_back_is_shown(client: TestClient, book: Notebook) -> None:
    book.add(NoteContent(text="the only one"))
    book.add(ExampleContent(input="i", output="o"))
    for path in ("/notes", "/examples"):
        text = client.get(path, params={"page": 50}).text
        assert ("yet" in text, f'href="{path}?' in text) == (False, True)


@pytest.mark.parametrize("path", ["/notes/gone", "/examples/gone", "/agents/nobody"])
def test_an_unknown_page_is_404(client: TestClient, book: Notebook, path: str) -> None:
    assert client.get(path).status_code == 404
