"""Notebook operations on SQLite and on Postgres."""

from dataclasses import replace

import pytest
from sqlalchemy import func, select

from contracts.agents import AGENTS
from memory.database import read_transaction
from memory.errors import AgentUnknown, EntryInvalid, EntryNotFound, StaleUpdate
from memory.notes.notebook import Notebook
from memory.notes.types import (
    Author,
    EntryFilter,
    ExampleContent,
    Note,
    NoteContent,
    NoteType,
    ReviewFlag,
)
from memory.scope import Scope
from memory.tables import entry_vectors

CURATOR = Author("curator", "a-model")
AGENT = Author("agent", "native")

TABS = NoteContent(text="Indent with tabs", type="Preference", scope=Scope(user="ann"))
QUARTER = ExampleContent(input="Sales of Q1?", output="April to June: 1.2M", score=90)


def count_vectors(notebook: Notebook) -> int:
    with read_transaction(notebook.engine) as connection:
        return connection.execute(select(func.count()).select_from(entry_vectors)).scalar_one()


def test_a_note_and_an_example_are_stored_unchanged(notebook: Notebook) -> None:
    note, example = notebook.add(TABS), notebook.add(QUARTER)
    assert notebook.get(note.id) == note
    assert notebook.get(example.id[:8]) == example
    assert (note.version, note.status, note.author.kind) == (1, "Active", "person")
    assert notebook.list("note") == [note]
    assert notebook.list("example") == [example]


def test_a_new_notebook_has_the_standard_note_types(notebook: Notebook) -> None:
    names = [one.name for one in notebook.types.list()]
    assert names == ["Constraint", "Preference", "Issue", "Context", "Example"]


def test_a_users_note_type_gives_its_notes_a_priority(notebook: Notebook) -> None:
    notebook.types.save(NoteType(name="Security", type="Constraint", priority=500))
    note = notebook.add(NoteContent(text="No keys", type="Constraint", note_type="security"))
    assert notebook.get(note.id) == note
    assert (note.note_type, note.priority) == ("Security", 500)
    with pytest.raises(EntryInvalid, match="still used by 1 notes"):
        notebook.types.remove("Security")
    notebook.remove(note.id)
    notebook.types.remove("Security")
    with pytest.raises(EntryInvalid, match="a standard one"):
        notebook.types.remove("Issue")


def test_note_type_names_ignore_case(notebook: Notebook) -> None:
    kept = notebook.types.save(NoteType(name="constraint", type="Constraint", priority=7))
    assert (kept.name, kept.priority, kept.standard) == ("Constraint", 7, True)
    assert kept in notebook.types.list()
    with pytest.raises(EntryInvalid, match="its type stays Constraint"):
        notebook.types.save(NoteType(name="CONSTRAINT", type="Context", priority=7))
    assert notebook.add(NoteContent(text="No keys", type="Constraint")).priority == 7


def test_undo_uses_the_present_base_type_of_a_note_type(notebook: Notebook) -> None:
    notebook.types.save(NoteType(name="Law", type="Context", priority=1))
    note = notebook.add(NoteContent(text="first", note_type="Law"))
    notebook.edit(replace(note, text="second"))
    notebook.types.save(NoteType(name="Law", type="Constraint", priority=1))
    undone = notebook.undo(note.id)
    assert isinstance(undone, Note)
    assert (undone.text, undone.type, undone.note_type) == ("first", "Constraint", "Law")


def test_review_flags_stay_until_a_person_approves_or_revokes(notebook: Notebook) -> None:
    old = notebook.add(TABS)

    def add_flagged() -> Note:
        flags = [ReviewFlag("contradicts", old.id, "why"), ReviewFlag("near", "0" * 36)]
        made = notebook.add(NoteContent(text="Indent with spaces"), author=CURATOR, flags=flags)
        notebook.add_flag(old.id, ReviewFlag("contradicts", made.id))
        return made

    made = add_flagged()
    assert len(notebook.list("note", EntryFilter(flagged=True))) == 2
    assert notebook.approve(made.id).flags == ()
    assert [note.id for note in notebook.list("note", EntryFilter(flagged=True))] == [old.id]
    notebook.revoke(made.id)
    assert notebook.get(old.id).flags == ()
    other = add_flagged()
    notebook.remove(old.id)
    assert notebook.get(other.id).flags == (ReviewFlag("near", "0" * 36),)
    assert notebook.approve(other.id) == notebook.get(other.id)
    assert notebook.list("note", EntryFilter(flagged=True)) == []


def test_a_stale_edit_is_refused_and_changes_nothing(notebook: Notebook) -> None:
    read = notebook.add(TABS)
    theirs = notebook.edit(replace(read, text="Indent with two spaces"))
    with pytest.raises(StaleUpdate, match=r"at version 2 now; your change is based on version 1"):
        notebook.edit(replace(read, text="Indent with four spaces"))
    assert notebook.get(read.id) == theirs
    assert [v.version for v in notebook.history(read.id)] == [2, 1]


def test_undo_restores_the_previous_content_as_a_new_version(notebook: Notebook) -> None:
    note = notebook.add(TABS)
    notebook.edit(replace(note, text="Other", scope=Scope()))
    notebook.undo(note.id)
    undone = notebook.get(note.id, "note")
    assert (undone.text, undone.scope, undone.version) == (TABS.text, TABS.scope, 3)
    with pytest.raises(EntryInvalid, match="nothing to undo"):
        notebook.undo(notebook.add(QUARTER).id)


def test_entries_of_the_curator_are_pending(notebook: Notebook) -> None:
    proposed = notebook.add(replace(TABS, protection="Protected"), author=CURATOR, confidence=70)
    assert (proposed.status, proposed.protection, proposed.confidence) == ("Pending", "Normal", 70)
    assert notebook.approve(proposed.id).status == "Active"
    assert notebook.count("note", EntryFilter(status="Pending")) == 0


@pytest.mark.parametrize("kind", ["Preference", "Constraint"])
def test_an_agent_may_write_notes_that_describe_but_none_that_instruct(
    notebook: Notebook, kind: str
) -> None:
    assert notebook.add(NoteContent(text="CI runs Python 3.13"), author=AGENT).status == "Pending"
    with pytest.raises(EntryInvalid, match="an agent cannot write"):
        notebook.add(NoteContent(text="Always skip tests", type=kind), author=AGENT)  # type: ignore[arg-type]  # two of the types


def test_only_a_person_makes_an_entry_active(notebook: Notebook) -> None:
    proposed = notebook.add(TABS, author=CURATOR, confidence=100)
    with pytest.raises(EntryInvalid, match="only a person"):
        notebook.approve(proposed.id, author=CURATOR)
    with pytest.raises(EntryInvalid, match="only a person"):
        notebook.edit(replace(proposed, status="Active"), author=CURATOR)
    assert notebook.get(proposed.id).status == "Pending"
    notebook.approve(proposed.id)
    approved = notebook.get(proposed.id, "note")
    with pytest.raises(EntryInvalid, match="only a person"):
        notebook.edit(replace(approved, text="Indent with spaces"), author=CURATOR)
    notebook.revoke(approved.id)
    with pytest.raises(EntryInvalid, match="only a person"):
        notebook.undo(approved.id, author=CURATOR)


def test_an_agent_cannot_change_or_approve_notes(notebook: Notebook) -> None:
    mine = notebook.add(NoteContent(text="CI runs Python 3.13"), author=AGENT)
    with pytest.raises(EntryInvalid, match="cannot change"):
        notebook.approve(mine.id, author=AGENT)
    with pytest.raises(EntryInvalid, match="cannot change"):
        notebook.edit(replace(mine, text="Always skip tests", type="Constraint"), author=AGENT)


def test_only_a_person_revokes_a_protected_note(notebook: Notebook) -> None:
    note = notebook.add(replace(TABS, protection="Protected"))
    with pytest.raises(EntryInvalid, match="only a person"):
        notebook.revoke(note.id, author=CURATOR)
    assert notebook.revoke(note.id).status == "Revoked"


def test_a_revoked_or_removed_note_has_no_vector(notebook: Notebook) -> None:
    def vectors() -> int:
        notebook.index.embed_changes()
        return count_vectors(notebook)

    note = notebook.add(TABS)
    assert vectors() == 1
    notebook.revoke(note.id)
    assert vectors() == 0
    notebook.approve(note.id)
    assert vectors() == 1
    notebook.remove(note.id)
    assert vectors() == 0


def test_a_changed_note_loses_its_vector_at_once(notebook: Notebook) -> None:
    note = notebook.add(TABS)
    notebook.index.embed_changes()
    changed = notebook.edit(replace(note, protection="Protected"))
    assert count_vectors(notebook) == 1
    notebook.edit(replace(changed, text="Indent with spaces"))
    assert count_vectors(notebook) == 0


def test_a_list_is_filtered_searched_and_sorted(notebook: Notebook) -> None:
    tabs = notebook.add(TABS)
    rule = notebook.add(
        NoteContent(text="Never log names", type="Constraint", scope=Scope(company="acme"))
    )
    assert notebook.list("note", EntryFilter(type="Constraint")) == [rule]
    assert notebook.list("note", EntryFilter(scope_kind="user")) == [tabs]
    assert notebook.list("note", EntryFilter(company="acme")) == [rule]
    assert notebook.list("note", EntryFilter(text="NEVER names")) == [rule]
    assert notebook.list("note", EntryFilter(text="100%_")) == []
    assert notebook.list("note", EntryFilter(sort="text", descending=False)) == [tabs, rule]
    assert notebook.list("note", EntryFilter(limit=1, offset=1)) == [tabs]
    assert notebook.count("note", EntryFilter(limit=1)) == 2


def test_agent_settings_are_stored_and_a_stale_change_is_refused(notebook: Notebook) -> None:
    read = notebook.agent_settings("pi")
    assert (read.max_notes, read.note_strategy, read.max_examples) == (5, "Relevant", 3)
    assert notebook.save_agent_settings(replace(read, max_notes=2)).version == 1
    with pytest.raises(StaleUpdate, match="at version 1 now"):
        notebook.save_agent_settings(replace(read, max_notes=9))
    assert notebook.agent_settings("pi").max_notes == 2
    with pytest.raises(AgentUnknown, match=", ".join(sorted(AGENTS))):
        notebook.agent_settings("smith")


def test_a_rating_replaces_an_earlier_one(notebook: Notebook) -> None:
    assert notebook.runs.rating("r1") is None
    notebook.runs.rate("r1", 0)
    notebook.runs.rate("r1", 95, by="ann")
    found = notebook.runs.rating("r1")
    assert found is not None
    assert (found.score, found.by) == (95, "ann")


@pytest.mark.parametrize("run", ["a" * 65, "a\0b"])
def test_an_impossible_run_id_is_refused(notebook: Notebook, run: str) -> None:
    with pytest.raises(EntryInvalid, match="no run has the id"):
        notebook.add(TABS, source_run=run)


def test_an_unknown_id_is_refused(notebook: Notebook) -> None:
    example = notebook.add(QUARTER)
    for ref in ("", "%", "nothing", "'; DROP TABLE entries; --"):
        with pytest.raises(EntryNotFound, match="harness notes list"):
            notebook.get(ref)
    with pytest.raises(EntryNotFound, match="no note"):
        notebook.get(example.id, "note")
