"""Exports can be imported by any store, count once, and are validated line by line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from memory.errors import EntryInvalid, StoreUnavailable
from memory.export_import import Imported, export_store
from memory.export_lines import FORMAT
from memory.playbooks import executions
from memory.playbooks.learn import record_feedback
from memory.playbooks.library import Library, open_library
from memory.types import (
    Execution,
    Outcome,
    PlaybookChanges,
    PlaybookContent,
    PlaybookQuery,
    Reflection,
    StepResult,
)
from tests.support.memory import Open, import_lines


def test_repeated_imports_change_nothing(opened: Open) -> None:
    with opened() as library:
        made = library.create(PlaybookContent(title="x", notes="n"))
        library.record_execution(Execution(playbook_id=made.id, outcome="success"))
        library.add_lessons(made.id, ["one"])
        before = library.get(made.id)
        for _ in range(3):
            done = import_lines(library, list(export_store(library)))
            assert done.unchanged == (made.slug,)
        assert library.get(made.id) == before
        assert library.list() == [before]


def test_an_export_makes_the_same_playbooks_in_another_store(opened: Open, tmp_path: Path) -> None:
    with opened() as library:
        made = library.create(PlaybookContent(title="rotate certificates"))
        library.update(
            library.create(PlaybookContent(title="old")).id, PlaybookChanges(status="archived")
        )
        library.record_execution(Execution(playbook_id=made.id, outcome="success"))
        library.add_lessons(made.id, ["one", "two", "three", "four"], run_id=None)
        lines = list(export_store(library))
    from tests.support.memory import WordEmbedder

    with open_library(
        tmp_path / "other.db", index=tmp_path / "other", embedder=WordEmbedder().embedder
    ) as other:
        assert len(import_lines(other, lines).created) == 2
        found = other.get(made.id)
        assert (found.counts.successes, found.slug) == (1, made.slug)
        assert [e.text for e in found.lessons] == ["one", "two", "three"]
        assert [h.playbook.id for h in other.search(PlaybookQuery(text="rotate"))] == [made.id]
        assert [p.id for p in other.list()] == [made.id]
        newer = other.update(made.id, PlaybookChanges(notes="newer"))
        import_lines(other, lines)
        assert other.get(made.id) == newer


def test_an_export_holds_executions_and_history(opened: Open, tmp_path: Path) -> None:
    said = Reflection(what_failed=("too early",), improvements=("wait",))
    failed = StepResult(name="push", outcome="failure", output="denied", duration_ms=7)
    with opened() as library:
        made = library.create(PlaybookContent(title="rotate certificates", notes="first"))
        library.update(made.id, PlaybookChanges(notes="second"))
        outcomes: tuple[Outcome, ...] = ("success", "failure", "pending")
        for number, outcome in enumerate(outcomes):
            done = Execution(playbook_id=made.id, run_id=f"r{number}", outcome=outcome, task="t")
            library.record_execution(replace(done, step_results=(failed,), reflection=said))
        library.record_execution(Execution(run_id="r9", outcome="neutral"))
        lines = list(export_store(library))
        wanted = library.get(made.id)
        stored, history = library.list_executions(), library.history(made.id)
    with open_library(tmp_path / "other.db", index=tmp_path / "other") as other:
        assert len(import_lines(other, lines).executions) == 4
        found = other.get(made.id)
        assert replace(found, key=wanted.key) == wanted
        assert other.list_executions() == stored
        assert other.history(made.id) == history
        assert import_lines(other, lines) == Imported(unchanged=(made.slug,))
        assert other.undo(made.id).notes == "first"


def test_executions_of_two_stores_add_up(opened: Open, tmp_path: Path) -> None:
    with opened() as library:
        made = library.create(PlaybookContent(title="rotate certificates"))
        lines = list(export_store(library))
        with open_library(tmp_path / "other.db", index=tmp_path / "other") as other:
            import_lines(other, lines)
            other.record_execution(Execution(playbook_id=made.id, run_id="b", outcome="success"))
            lines = list(export_store(other))
        library.record_execution(Execution(playbook_id=made.id, run_id="a", outcome="failure"))
        for _ in range(2):
            import_lines(library, lines)
        counts = library.get(made.id).counts
    assert (counts.successes, counts.failures) == (1, 1)


def test_an_export_of_format_1_is_still_read(on_sqlite: Library) -> None:
    content = {"title": "rotate keys"}
    counts = {"successes": 2, "partials": 0, "failures": 1}
    old = {"format": 1, "id": "0" * 36, "slug": "rotate-keys", "version": 4, "lessons": []}
    import_lines(on_sqlite, [json.dumps({**old, "content": content, "counts": counts})])
    found = on_sqlite.get("rotate-keys")
    assert (found.version, found.counts.successes) == (4, 2)
    assert on_sqlite.update("rotate-keys", PlaybookChanges(notes="n")).version == 5


@pytest.mark.parametrize(
    "line", ["{", "[]", "[" * 100_000, "9" * 5_000, '{"format": 1}', '{"format": 2, "x": 1}', "\0"]
)
def test_a_line_that_is_no_playbook_imports_nothing(on_sqlite: Library, line: str) -> None:
    on_sqlite.create(PlaybookContent(title="x"))
    lines = list(export_store(on_sqlite))
    on_sqlite.delete("x")
    with pytest.raises(EntryInvalid, match="line 2"):
        import_lines(on_sqlite, [*lines, line])
    assert on_sqlite.list() == []


def grown(library: Library) -> list[str]:
    """The lines of a store with one playbook that was changed once and followed once."""
    made = library.create(PlaybookContent(title="rotate certificates"))
    library.update(made.id, PlaybookChanges(notes="n"))
    library.record_execution(Execution(playbook_id=made.id, run_id="r", outcome="success"))
    return list(export_store(library))


def test_duplicate_lines_in_any_order_count_once(on_sqlite: Library, tmp_path: Path) -> None:
    playbook, execution = grown(on_sqlite)
    on_sqlite.record_execution(Execution(playbook_id=None, run_id="r2", outcome="neutral"))
    on_sqlite.record_execution(
        Execution(playbook_id=on_sqlite.list()[0].id, run_id="r3", outcome="failure")
    )
    lines = [execution, playbook, *(line for line in export_store(on_sqlite) for _ in range(2))]
    with open_library(tmp_path / "other.db", index=tmp_path / "other") as other:
        done = import_lines(other, lines)
        assert (len(done.created), len(done.unchanged), len(done.executions)) == (1, 2, 3)
        assert other.list()[0].counts == on_sqlite.list()[0].counts


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "abc"),
        ("slug", ""),
        ("slug", "x" * 121),
        ("version", 0),
        ("version", 10**30),
        ("version", 1),  # below the newest of its history
        ("counts", {"successes": -4, "partials": 0, "failures": 0}),
        ("counts", {"successes": 10**10, "partials": 0, "failures": 0}),
        ("source", "a\0"),
        ("created_at", "0001-01-01T00:00:00+14:00"),
        ("updated_at", "2026-01-01T00:00:00"),
        ("content", {"title": ""}),
        ("lessons", [{"text": "x" * 1_001, "run_id": None}]),
        ("lessons", [{"text": "x", "run_id": "r" * 65}]),
        ("format", FORMAT + 1),
    ],
)
def test_a_playbook_that_was_changed_by_hand_is_refused_with_its_line(
    on_sqlite: Library, field: str, value: object
) -> None:
    playbook, execution = grown(on_sqlite)
    on_sqlite.delete("rotate-certificates")
    bad = json.dumps({**json.loads(playbook), field: value})
    with pytest.raises(EntryInvalid, match=r"line 2 cannot be imported: .*Nothing was imp") as no:
        import_lines(on_sqlite, [execution, bad])
    assert "\n" not in str(no.value)
    assert on_sqlite.stats().executions == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        ("id", "x" * 37),
        ("playbook_id", "abc"),
        ("run_id", "r" * 65),
        ("playbook_version", 10**30),
        ("outcome", "great"),
        ("completed_at", "9999-12-31T23:59:59-14:00"),
        ("colour", "red"),
    ],
)
def test_an_execution_that_was_changed_by_hand_is_refused_with_its_line(
    on_sqlite: Library, field: str, value: object
) -> None:
    playbook, execution = grown(on_sqlite)
    document = json.loads(execution)
    bad = json.dumps({**document, "execution": {**document["execution"], field: value}})
    with pytest.raises(EntryInvalid, match=f"line 2 cannot be imported: .*{field}"):
        import_lines(on_sqlite, [playbook, bad])


def test_a_history_that_lacks_the_newest_version_can_still_be_undone(
    on_sqlite: Library, tmp_path: Path
) -> None:
    document = json.loads(grown(on_sqlite)[0])
    with open_library(tmp_path / "other.db", index=tmp_path / "other") as other:
        import_lines(other, [json.dumps({**document, "version": 7})])
        assert [one.version for one in other.history("rotate-certificates")] == [7, 2, 1]
        assert other.undo("rotate-certificates", to=1).version == 8


@pytest.mark.parametrize("run_id", ["r" * 65, "a\0b", "\udc80"])
def test_an_execution_with_an_unstorable_run_id_is_refused(on_sqlite: Library, run_id: str) -> None:
    with pytest.raises(EntryInvalid, match="run_id of an execution"):
        on_sqlite.record_execution(Execution(run_id=run_id, outcome="success"))


def test_a_playbook_archived_here_stays_archived_after_an_import(
    opened: Open, tmp_path: Path
) -> None:
    with opened() as here, open_library(tmp_path / "b.db", index=tmp_path / "b") as there:
        made = here.create(PlaybookContent(title="rotate certificates"))
        import_lines(there, list(export_store(here)))
        here.update(made.id, PlaybookChanges(status="archived"))
        for notes in ("one", "two", "three"):
            there.update(made.id, PlaybookChanges(notes=notes))
        lines = list(export_store(there))
        assert import_lines(here, lines).updated == (made.slug,)
        assert import_lines(here, lines).unchanged == (made.slug,)
        assert (here.get(made.id).status, here.get(made.id).notes) == ("archived", "three")


def test_an_edit_after_an_import_is_not_overwritten(opened: Open, tmp_path: Path) -> None:
    with opened() as here, open_library(tmp_path / "b.db", index=tmp_path / "b") as there:
        made = here.create(PlaybookContent(title="rotate certificates"))
        import_lines(there, list(export_store(here)))
        for number in range(6):
            here.update(made.id, PlaybookChanges(notes=f"change {number}"))
        lines = list(export_store(here))
        assert import_lines(there, lines).updated == (made.slug,)
        assert there.get(made.id).version == here.get(made.id).version == 7
        there.update(made.id, PlaybookChanges(notes="by a person"))
        assert import_lines(there, lines).kept == (made.slug,)
        assert there.get(made.id).notes == "by a person"
        assert [one.version for one in there.history(made.id)] == [8, 7, 1]


@pytest.mark.parametrize("error", [StoreUnavailable("no room"), KeyboardInterrupt()])
def test_an_interrupted_import_changes_nothing_and_can_be_repeated(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    with opened() as library:
        for name in "abc":
            made = library.create(PlaybookContent(title=name))
            library.record_execution(Execution(playbook_id=made.id, run_id=name, outcome="success"))
        lines = list(export_store(library))
        known = {one.id: one.counts for one in library.list()}

    def fail(*_: object) -> None:
        raise error

    with open_library(tmp_path / "b.db", index=tmp_path / "b") as other:
        with monkeypatch.context() as patch:
            patch.setattr(executions, "import_execution", fail)
            with pytest.raises(type(error)):
                import_lines(other, lines)
        assert other.list() == []
        assert len(import_lines(other, lines).created) == 3
        assert {one.id: one.counts for one in other.list()} == known


def test_a_pending_execution_gets_the_outcome_of_a_later_export(
    opened: Open, tmp_path: Path
) -> None:
    with opened() as here, open_library(tmp_path / "b.db", index=tmp_path / "b") as there:
        made = here.create(PlaybookContent(title="rotate certificates"))
        for playbook_id in (made.id, None):
            here.record_execution(Execution(playbook_id=playbook_id, run_id="r", outcome="pending"))
        assert len(import_lines(there, list(export_store(here))).executions) == 2
        record_feedback(here, made.id, Execution(run_id="r", outcome="failure"))
        lines = list(export_store(here))
        assert len(import_lines(there, lines).executions) == 2
        assert import_lines(there, lines).executions == ()
        assert there.get(made.id).counts == here.get(made.id).counts
        assert {one.outcome for one in there.list_executions()} == {"failure"}
