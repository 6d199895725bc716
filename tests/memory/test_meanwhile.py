"""What one process does while another is in the middle of something; on both databases."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from sqlalchemy import event, update

from memory.changes import Changes
from memory.database import writing
from memory.library import Library
from memory.tables import vectors
from memory.types import Content, Embedder, Execution, Query
from tests.memory.conftest import Clock, Open, WordEmbedder


@contextmanager
def after(
    library: Library, is_it: Callable[[str], bool], do: Callable[[], object]
) -> Iterator[None]:
    """Somebody does `do` once, right after that statement; who has to wait for us, waits."""
    threads: list[Thread] = []

    def interrupt(_: object, __: object, statement: str, *___: object) -> None:
        if is_it(statement) and not threads:
            threads.append(Thread(target=do))
            threads[0].start()
            threads[0].join(timeout=0.7)

    event.listen(library.engine, "after_cursor_execute", interrupt)
    yield
    event.remove(library.engine, "after_cursor_execute", interrupt)
    assert threads, "nobody said that"
    threads[0].join()


def test_a_text_that_changes_while_its_vector_is_kept_is_found_by_what_it_is_now(
    opened: Open, words: WordEmbedder
) -> None:
    def texts_are_read(statement: str) -> bool:
        start = "SELECT playbooks.key, playbooks.title, playbooks.use_case"
        return statement.replace('"', "").startswith(start) and "JOIN" not in statement

    with opened() as library, opened() as other:
        words.down = True
        made = library.create(Content(title="rotate keys"))
        words.down = False
        with after(library, texts_are_read, lambda: other.update(made.id, Changes(title="bake"))):
            library.index.refresh()
        (hit,) = library.search(Query(text="bake", max_distance=0.1))
        assert set(hit.places) == {"words", "vectors"}
        assert [finding for finding in library.doctor() if not finding.ok] == []


def test_a_vector_of_an_earlier_text_is_noticed_and_mended_by_reindex(library: Library) -> None:
    library.create(Content(title="rotate keys"))
    with writing(library.engine) as connection:
        connection.execute(update(vectors).values(digest="of another text"))
    told = {finding.name: finding for finding in library.doctor()}["embeddings"]
    assert (told.ok, "1 are of an earlier text" in told.advice) == (False, True)
    library.reindex()
    assert [finding for finding in library.doctor() if not finding.ok] == []


def test_a_search_during_a_long_reindex_goes_by_words_and_says_why(
    opened: Open, words: WordEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    begun, done = Event(), Event()

    def slow(texts: Sequence[str]) -> list[list[float]]:
        begun.set()
        done.wait()
        return words(texts)

    other_model = Embedder(name="words", embed=slow)
    with opened() as library, opened(embedder=other_model) as reindexing:
        made = library.create(Content(title="rotate keys"))
        words.down = True
        late = library.create(Content(title="rotate seals"))
        words.down = False
        thread = Thread(target=reindexing.index.refresh)
        thread.start()
        begun.wait()
        try:
            found = library.search(Query(text="rotate"))
            assert {hit.playbook.id for hit in found} == {made.id, late.id}
            assert {place for hit in found for place in hit.places} == {"words"}
            assert caplog.text.count("words only: another process does 'index'") == 1
        finally:
            done.set()
            thread.join()
        found = library.search(Query(text="rotate"))
        assert {place for hit in found for place in hit.places} == {"words", "vectors"}


def test_others_write_while_words_are_made_anew(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.upkeep.BATCH", 1)
    monkeypatch.setattr("memory.upkeep.PAUSE_S", 1.0)
    with opened() as library, opened() as other:
        first, second = (other.create(Content(title=title)) for title in ("keys", "seals"))
        order: list[str] = []

        def write() -> None:
            other.update(second.id, Changes(notes="in between"))
            order.append("other")

        def words_are_written(statement: str) -> bool:
            mine = statement.startswith("INSERT INTO words")
            order.extend(["words"] * mine)
            return mine

        library.search(Query(text="keys"))
        with after(library, words_are_written, write):
            library.reindex()
        assert order[:2] == ["words", "other"]
        assert library.get(first.id).version == 1
        assert [finding for finding in library.doctor() if not finding.ok] == []


def test_prune_leaves_what_is_changed_used_or_deleted_meanwhile(opened: Open, clock: Clock) -> None:
    with opened() as library, opened() as other:
        ids = [library.create(Content(title=title)).id for title in "abcd"]
        clock.pass_days(200)

        def meanwhile() -> None:
            other.update(ids[0], Changes(process="written by a person just now"))
            for _ in range(2):
                other.record_execution(Execution(playbook_id=ids[1], outcome="success"))
            other.delete(ids[2])

        with after(library, lambda said: "FROM lessons" in said, meanwhile):
            pruned = library.prune()
        assert [playbook.id for playbook, _ in pruned] == ids[3:]
        assert {playbook.id for playbook in library.list()} == set(ids[:2])


def test_doctor_is_at_ease_with_what_has_no_words_or_many_namesakes(opened: Open) -> None:
    for options in ({}, {"embedder": None}):
        with opened(**options) as library:
            library.create(Content(title="What to do"))
            library.create(Content(title="🚀"))
            for _ in range(7):
                library.create(Content(title="deploy the service", use_case="when it is due"))
            assert [finding for finding in library.doctor() if not finding.ok] == []
