"""What one process does while another is in the middle of something; on both databases."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from sqlalchemy import event

from memory.errors import StaleUpdate
from memory.export_import import Imported, export_store
from memory.playbooks.library import Library, open_library
from memory.types import Embedder, Execution, PlaybookChanges, PlaybookContent, PlaybookQuery
from tests.support.memory import Clock, Open, WordEmbedder, import_lines
from tests.support.waiting import LONG_S, wait_until


@contextmanager
def after(
    library: Library,
    is_it: Callable[[str], bool],
    do: Callable[[], object],
    *,
    waits_for_us: bool = True,
) -> Iterator[None]:
    """Call `do` once in a thread, right after the first matching statement."""
    threads: list[Thread] = []

    def interrupt(_: object, __: object, statement: str, *___: object) -> None:
        if is_it(statement) and not threads:
            threads.append(Thread(target=do))
            threads[0].start()
            threads[0].join(timeout=0.7 if waits_for_us else LONG_S)

    event.listen(library.engine, "after_cursor_execute", interrupt)
    yield
    event.remove(library.engine, "after_cursor_execute", interrupt)
    assert threads, "nobody said that"
    threads[0].join()


def test_a_text_changed_while_it_is_embedded_is_found_by_its_new_form(
    opened: Open, words: WordEmbedder
) -> None:
    def texts_are_read(statement: str) -> bool:
        start = "SELECT entries.key, entries.text, entries.kind"
        return statement.replace('"', "").startswith(start) and "JOIN" not in statement

    with opened() as library, opened() as other:
        words.down = True
        made = library.create(PlaybookContent(title="rotate keys"))
        words.down = False
        with after(
            library, texts_are_read, lambda: other.update(made.id, PlaybookChanges(title="bake"))
        ):
            library.index.refresh()
        (hit,) = library.search(PlaybookQuery(text="bake", max_distance=0.1))
        assert set(hit.arm_ranks) == {"words", "vectors"}
        assert [finding for finding in library.doctor() if not finding.ok] == []


def test_a_search_during_a_long_reindex_uses_words_and_warns(
    opened: Open, words: WordEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    begun, done = Event(), Event()

    def slow(texts: Sequence[str]) -> list[list[float]]:
        begun.set()
        done.wait()
        return words(texts)

    other_model = Embedder(name="words", embed=slow)
    with opened() as library, opened(embedder=other_model) as reindexing:
        made = library.create(PlaybookContent(title="rotate keys"))
        words.down = True
        late = library.create(PlaybookContent(title="rotate seals"))
        words.down = False
        thread = Thread(target=reindexing.index.refresh)
        thread.start()
        begun.wait()
        try:
            found = library.search(PlaybookQuery(text="rotate"))
            assert {hit.playbook.id for hit in found} == {made.id, late.id}
            assert {place for hit in found for place in hit.arm_ranks} == {"words"}
            assert caplog.text.count("words only: another process holds the lock 'index'") == 1
        finally:
            done.set()
            thread.join()
        found = library.search(PlaybookQuery(text="rotate"))
        assert {place for hit in found for place in hit.arm_ranks} == {"words", "vectors"}


def test_other_processes_can_write_during_a_reindex(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr("memory.playbooks.upkeep.CHANGES_PER_BATCH", 1)
    monkeypatch.setattr(
        "memory.playbooks.upkeep.sleep", lambda _: wait_until(lambda: "other" in order)
    )
    with opened() as library, opened() as other:
        first, second = (other.create(PlaybookContent(title=title)) for title in ("keys", "seals"))

        def write() -> None:
            other.update(second.id, PlaybookChanges(notes="in between"))
            order.append("other")

        def words_are_written(statement: str) -> bool:
            mine = statement.startswith("INSERT INTO words")
            order.extend(["words"] * mine)
            return mine

        library.search(PlaybookQuery(text="keys"))
        with after(library, words_are_written, write):
            library.reindex()
        assert order[:2] == ["words", "other"]
        assert library.get(first.id).version == 1
        assert [finding for finding in library.doctor() if not finding.ok] == []


def test_reindex_uses_the_latest_content_of_a_playbook(opened: Open) -> None:
    def words_are_cleared(statement: str) -> bool:
        return statement.startswith("DELETE FROM words")

    with opened() as library, opened() as other:
        made = library.create(PlaybookContent(title="rotate certificates"))
        with after(
            library,
            words_are_cleared,
            lambda: other.update(made.id, PlaybookChanges(title="bake bread")),
        ):
            library.reindex()
        (hit,) = library.search(PlaybookQuery(text="bread", max_distance=0.0))
        assert "words" in hit.arm_ranks
        assert library.search(PlaybookQuery(text="certificates", max_distance=0.0)) == []
        with after(library, words_are_cleared, lambda: other.delete(made.id)):
            library.reindex()
        assert library.list() == []
        assert [finding for finding in library.doctor() if not finding.ok] == []


def test_concurrent_imports_of_one_file_create_each_playbook_once(
    opened: Open, tmp_path: Path
) -> None:
    with opened() as library, opened() as other:
        with open_library(tmp_path / "b.db", index=tmp_path / "b") as there:
            made = there.create(PlaybookContent(title="rotate keys"))
            lines = list(export_store(there))
            there.update(made.id, PlaybookChanges(notes="newer"))
            newer = list(export_store(there))
        done = [Imported()] * 2

        def import_too() -> None:
            done[1] = import_lines(other, lines)

        with after(library, lambda said: said.startswith("INSERT INTO entries "), import_too):
            done[0] = import_lines(library, lines)
        assert [one.created or one.unchanged for one in done] == [("rotate-keys",)] * 2
        assert done[0].created

        def edit() -> None:
            with suppress(StaleUpdate):
                other.update(made.id, PlaybookChanges(process="by a person"))

        def it_is_read(statement: str) -> bool:
            return statement.replace('"', "").startswith("SELECT entries.key, entries.id")

        with after(library, it_is_read, edit):
            assert import_lines(library, newer).updated == ("rotate-keys",)
        assert library.get(made.id).notes == "newer"


def test_concurrent_processes_share_the_lesson_limit_of_a_run(opened: Open) -> None:
    ended = Execution(run_id="r", outcome="success")
    with opened() as library, opened() as other:
        made = library.create(PlaybookContent(title="rotate keys"))

        def teach() -> None:
            other.add_lessons(made.id, ["four", "five", "six"], run_id="r")

        with after(library, lambda said: said.startswith("INSERT INTO lessons"), teach):
            library.add_lessons(made.id, ["one", "two", "three"], run_id="r")
        assert len(library.get(made.id).lessons) == 3
        with after(
            library,
            lambda said: said.startswith("INSERT INTO executions"),
            lambda: other.record_execution(ended),
        ):
            library.record_execution(ended)
        assert len(library.list_executions()) == 1


def test_prune_skips_playbooks_that_changed_meanwhile(opened: Open, clock: Clock) -> None:
    with opened() as library, opened() as other:
        ids = [library.create(PlaybookContent(title=title)).id for title in "abcd"]
        clock.pass_days(200)

        def meanwhile() -> None:
            other.update(ids[0], PlaybookChanges(process="written by a person just now"))
            for _ in range(2):
                other.record_execution(Execution(playbook_id=ids[1], outcome="success"))
            other.delete(ids[2])

        with after(library, lambda said: "FROM lessons" in said, meanwhile, waits_for_us=False):
            pruned = library.prune()
        assert [playbook.id for playbook, _ in pruned] == ids[3:]
        assert {playbook.id for playbook in library.list()} == set(ids[:2])


def test_doctor_accepts_playbooks_without_words_and_with_equal_titles(opened: Open) -> None:
    for options in ({}, {"embedder": None}):
        with opened(**options) as library:
            library.create(PlaybookContent(title="What to do"))
            library.create(PlaybookContent(title="🚀"))
            for _ in range(7):
                library.create(
                    PlaybookContent(title="deploy the service", use_case="when it is due")
                )
            assert [finding for finding in library.doctor() if not finding.ok] == []
