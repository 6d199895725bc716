"""Exports hold notes, examples and note types; hand-made changes of these lines are refused."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.agents import AGENTS
from memory.errors import AgentUnknown, EntryInvalid
from memory.export_import import Imported, export_store, import_store
from memory.notes.notebook import Notebook
from memory.notes.types import Author, EntryFilter, ExampleContent, NoteContent, NoteType
from memory.playbooks.library import Library, open_library
from memory.scope import Scope
from tests.support.memory import Clock, WordEmbedder


@pytest.fixture
def notes(on_sqlite: Library, words: WordEmbedder, clock: Clock) -> Notebook:
    """The notebook in the database of `on_sqlite`."""
    return Notebook(on_sqlite.engine, agents=AGENTS, embedder=words.embedder, clock=clock)


@pytest.fixture
def other(tmp_path: Path, words: WordEmbedder) -> Iterator[tuple[Library, Notebook]]:
    """A library and a notebook in another, empty database."""
    with open_library(tmp_path / "other.db", index=tmp_path / "other") as library:
        clock, embedder = library.clock, words.embedder
        yield library, Notebook(library.engine, agents=AGENTS, embedder=embedder, clock=clock)


def test_notes_and_examples_are_the_same_in_another_store(
    on_sqlite: Library, notes: Notebook, other: tuple[Library, Notebook]
) -> None:
    notes.types.save(NoteType(name="Style", type="Preference", priority=7))
    note = notes.add(
        NoteContent(
            text="Use tabs.", type="Preference", note_type="Style", scope=Scope(agent="native")
        ),
        source_run="r1",
        confidence=70,
        evidence="tabs, please",
    )
    note = notes.edit(replace(note, text="Use spaces."))
    example = notes.add(ExampleContent(input="2+2", output="4", score=90))
    lines = list(export_store(on_sqlite))
    library, book = other
    done = import_store(library, book, lines)
    assert done.created == ("Style", note.id, example.id)
    found = book.get(note.id)
    assert replace(found, key=note.key, updated_at=note.updated_at) == note
    assert book.history(note.id) == notes.history(note.id)
    assert book.undo(note.id).version == 3
    assert book.get(example.id, "example").output == "4"
    assert book.inject(Scope(), "what is 2+2").examples  # it was embedded
    assert list(export_store(library))[-1] == lines[-1]


def test_settings_of_agents_are_exported_and_newer_ones_here_stay(
    on_sqlite: Library, notes: Notebook, other: tuple[Library, Notebook]
) -> None:
    settings = notes.agent_settings("native")
    notes.save_agent_settings(replace(settings, max_notes=7, note_strategy="Recent"))
    lines = list(export_store(on_sqlite))
    library, book = other
    assert import_store(library, book, lines).created == ("native",)
    assert book.agent_settings("native").max_notes == 7
    assert import_store(library, book, lines).unchanged == ("native",)
    book.save_agent_settings(replace(book.agent_settings("native"), max_notes=3))
    assert import_store(library, book, lines).kept == ("native",)
    assert book.agent_settings("native").max_notes == 3


def test_importing_entries_again_changes_nothing_and_a_newer_one_here_stays(
    on_sqlite: Library, notes: Notebook, other: tuple[Library, Notebook]
) -> None:
    note = notes.add(NoteContent(text="The API is at /v1."))
    library, book = other
    import_store(library, book, export_store(on_sqlite))
    lines = list(export_store(on_sqlite))
    assert import_store(library, book, lines) == Imported(unchanged=(note.id,))
    book.edit(replace(book.get(note.id, "note"), text="The API is at /v3."))
    assert import_store(library, book, lines).kept == (note.id,)
    for text in ("The API is at /v1.1.", "The API is at /v2."):
        note = notes.edit(replace(notes.get(note.id, "note"), text=text))
    newer = list(export_store(on_sqlite))
    assert import_store(library, book, newer).updated == (note.id,)
    assert (book.get(note.id).version, book.get(note.id, "note").text) == (3, "The API is at /v2.")


def test_a_note_revoked_here_stays_revoked(
    on_sqlite: Library, notes: Notebook, other: tuple[Library, Notebook]
) -> None:
    note = notes.add(NoteContent(text="Never deploy on Fridays.", type="Constraint"))
    library, book = other
    import_store(library, book, export_store(on_sqlite))
    book.revoke(note.id)
    for text in ("Never deploy on Mondays.", "Never deploy on Sundays."):
        note = notes.edit(replace(notes.get(note.id, "note"), text=text))
    assert import_store(library, book, export_store(on_sqlite)).updated == (note.id,)
    assert book.get(note.id).status == "Revoked"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "abc"),
        ("type", "example"),
        ("version", 0),
        ("content", {"text": ""}),
        ("content", {"text": "a\0b"}),
        ("content", {"text": "x" * 4_001}),
        ("content", {"text": "x", "status": "Live"}),
        ("content", {"text": "x", "scope": {"user": "a\u202eb"}}),
        ("author", {"kind": "agent", "name": "a"}),  # agents write no Constraint
        ("author", {"kind": "root"}),
        ("source_run", "r" * 65),
        ("confidence", 101),
        ("flags", [{"kind": "near", "other": "x"}]),
        ("created_at", "2026-01-01T00:00:00"),
        ("history", [{"version": 1}]),
        ("colour", "red"),
    ],
)
def test_a_note_that_was_changed_by_hand_is_refused_with_its_line(
    on_sqlite: Library, notes: Notebook, field: str, value: object
) -> None:
    note = notes.add(NoteContent(text="Never deploy on Fridays.", type="Constraint"))
    (line,) = export_store(on_sqlite)
    notes.remove(note.id)
    bad = json.dumps({**json.loads(line), field: value})
    with pytest.raises(EntryInvalid, match=r"line 2 cannot be imported: .*Nothing was imp"):
        import_store(on_sqlite, notes, [line, bad])
    assert notes.count("note", EntryFilter()) == 0


def test_a_note_for_an_unknown_agent_imports_nothing(on_sqlite: Library, notes: Notebook) -> None:
    note = notes.add(NoteContent(text="x", scope=Scope(agent="native")))
    (line,) = export_store(on_sqlite)
    notes.remove(note.id)
    with pytest.raises(AgentUnknown, match="nobody"):
        import_store(on_sqlite, notes, [line, line.replace('"native"', '"nobody"')])
    assert notes.count("note", EntryFilter()) == 0


def test_an_export_keeps_the_author(
    on_sqlite: Library, notes: Notebook, other: tuple[Library, Notebook]
) -> None:
    note = notes.add(NoteContent(text="The build takes an hour."), author=Author("curator", "m"))
    library, book = other
    import_store(library, book, export_store(on_sqlite))
    assert (book.get(note.id).author, book.get(note.id).status) == (note.author, "Pending")
