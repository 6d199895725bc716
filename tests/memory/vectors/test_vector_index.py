"""The vector index of a store: complete for every process, and rebuilt when damaged."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memory.playbooks.library import Library, open_library
from memory.types import PlaybookChanges, PlaybookContent, PlaybookFilter, PlaybookQuery, SearchArm
from memory.vectors.chroma import IndexEntry
from memory.vectors.vector_index import FolderVectorIndex
from tests.support.memory import Open, WordEmbedder
from tests.support.stores import new_store


def test_a_reader_sees_the_writes_of_another_client_of_the_folder(tmp_path: Path) -> None:
    one, two = (FolderVectorIndex(tmp_path / "index", "test") for _ in range(2))
    for number in range(5):
        vector = [1.0, float(number), 0.5]
        one.write([number], [IndexEntry(number, number, vector, "", ())])
        assert two.nearest(vector, PlaybookFilter(), 1)[0][0] == number
    two.write([0, 1, 2])
    assert one.keys() == {3, 4}
    one.close()
    two.close()


def test_clustered_records_are_all_found_by_their_own_vector(tmp_path: Path) -> None:
    embed = WordEmbedder(length=32)
    texts = [f"deploy service number {n % 40} of customer {n}" for n in range(600)]
    entries = [IndexEntry(n, n, v, "", ()) for n, v in enumerate(embed(texts))]
    index = FolderVectorIndex(tmp_path / "index", "test")
    for _ in range(3):
        index.write([entry.key for entry in entries], entries)
    lost = [
        entry.key
        for entry in entries
        if index.nearest(entry.vector, PlaybookFilter(), 1)[0][1] > 1e-4
    ]
    index.close()
    assert lost == []


def test_a_vector_that_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    index = FolderVectorIndex(tmp_path / "index", "test")
    for vector, tags in (([1.0, 0.5], ("old",)), ([1.0, 0.5], ("old",)), ([1.0, 0.5], ("new",))):
        index.write([1], [IndexEntry(1, 1, vector, "", tags)])
    assert index.nearest([1.0, 0.5], PlaybookFilter(tags=("new",)), 1)
    assert not index.nearest([1.0, 0.5], PlaybookFilter(tags=("old",)), 1)
    index.write([1], [IndexEntry(1, 2, [0.5, 1.0], "", ("new",))])
    assert index.nearest([0.5, 1.0], PlaybookFilter(), 1)[0][1] < 1e-4
    index.close()
    # Chroma's log, which it replays in parallel when it opens the folder.
    with closing(sqlite3.connect(tmp_path / "index" / "chroma" / "chroma.sqlite3")) as log:
        written = log.execute("SELECT count(*) FROM embeddings_queue WHERE vector IS NOT NULL")
        assert written.fetchone() == (2,)


def found(library: Library, text: str) -> list[tuple[str, set[SearchArm]]]:
    """Return the titles found, each with the arms that found it."""
    return [
        (hit.playbook.title, set(hit.arm_ranks)) for hit in library.search(PlaybookQuery(text=text))
    ]


def test_the_next_search_rebuilds_a_deleted_index(
    opened: Open, tmp_path: Path, words: WordEmbedder
) -> None:
    with opened() as library:
        library.create(PlaybookContent(title="rotate keys"))
        assert found(library, "rotate keys") == [("rotate keys", {"words", "vectors"})]
    for gone in (tmp_path / "index" / "chroma", tmp_path / "index"):
        shutil.rmtree(gone)
        with opened() as library:
            assert found(library, "rotate keys") == [("rotate keys", {"words", "vectors"})]
    assert words.texts.count("rotate keys") == 2  # once to store it, once to search for it


def test_two_indexes_of_one_store_are_both_complete(opened: Open, tmp_path: Path) -> None:
    with opened() as one, opened(index=tmp_path / "another") as two:
        made = [
            one.create(PlaybookContent(title=f"rotate {name}")).id for name in ("keys", "locks")
        ]
        for library in (one, two):
            assert found(library, "keys") == [("rotate keys", {"words", "vectors"})]
        two.delete(made[0])
        two.update(made[1], PlaybookChanges(title="rotate bolts"))
        for library in (two, one):
            assert found(library, "rotate bolts") == [("rotate bolts", {"words", "vectors"})]
            assert library.index.keys() == {one.get(made[1]).key}


@pytest.mark.parametrize("move", [shutil.copytree, lambda one, other: other.symlink_to(one)])
def test_a_copied_or_linked_home_keeps_its_index(
    tmp_path: Path, words: WordEmbedder, move: Callable[[Path, Path], object]
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    new_store(one / "harness.db")
    for home, titles in ((one, ["rotate keys"]), (other, ["rotate keys", "bake bread"])):
        with open_library(
            home / "harness.db", index=home / "index", embedder=words.embedder
        ) as library:
            library.create(PlaybookContent(title=titles[-1]))
            for title in titles:
                assert found(library, title) == [(title, {"words", "vectors"})]
        if home is one:
            move(one, other)


def test_restoring_an_older_database_rebuilds_the_index(
    tmp_path: Path, words: WordEmbedder
) -> None:
    store, index, copy = tmp_path / "harness.db", tmp_path / "index", tmp_path / "copy"
    new_store(store)
    for title in ("rotate keys", "bake bread"):
        with open_library(store, index=index, embedder=words.embedder) as library:
            library.create(PlaybookContent(title=title))
            assert found(library, title) == [(title, {"words", "vectors"})]
        if not copy.exists():
            shutil.copy(store, copy)
    shutil.copy(copy, store)
    with open_library(store, index=index, embedder=words.embedder) as library:
        library.create(
            PlaybookContent(title="paint doors")
        )  # its change has the number that the bread's had
        assert found(library, "rotate keys") == [("rotate keys", {"words", "vectors"})]
        assert [finding for finding in library.doctor() if not finding.ok] == []


def test_two_stores_in_one_home_have_separate_vectors(tmp_path: Path, words: WordEmbedder) -> None:
    index = tmp_path / "index"
    stores = [tmp_path / name for name in ("keys.db", "locks.db")]
    for store in stores:  # not copies of one store, which would share an id
        with open_library(store, index=index, embedder=words.embedder) as library:
            library.create(PlaybookContent(title=store.stem))
            assert found(library, store.stem) == [(store.stem, {"words", "vectors"})]
            library.reindex()
    with open_library(stores[0], index=index, embedder=words.embedder) as library:
        assert found(library, "keys") == [("keys", {"words", "vectors"})]
        assert library.index.keys() == {1}


def test_reindex_removes_the_vectors_of_an_earlier_model(opened: Open, tmp_path: Path) -> None:
    for name in ("earlier", "later"):
        with opened(embedder=WordEmbedder(name=name).embedder) as library:
            library.create(PlaybookContent(title=f"rotate {name} keys"))
            library.reindex()
            assert library.search(PlaybookQuery(text="rotate keys"))
    (folder,) = tmp_path.rglob("chroma-*/")
    with closing(sqlite3.connect(folder / "chroma.sqlite3")) as data:
        assert data.execute("SELECT count(*) FROM collections").fetchone() == (2,)


@pytest.mark.parametrize("damage", ["garbage", "no vectors"])
def test_the_doctor_rebuilds_a_damaged_index(opened: Open, tmp_path: Path, damage: str) -> None:
    with opened() as library:
        made = library.create(PlaybookContent(title="rotate certificates"))
        assert library.search(PlaybookQuery(text="rotate certificates"))
    data = tmp_path / "index" / "chroma"
    match damage:
        case "garbage":
            (data / "chroma.sqlite3").write_bytes(b"no database" * 500)
        case _:
            for folder in data.iterdir():
                if folder.is_dir():
                    shutil.rmtree(folder)
    with opened() as library:
        findings = library.doctor(repair=True)
        assert [finding for finding in findings if not finding.ok] == []
        (hit,) = library.search(PlaybookQuery(text="rotate certificates"))
        assert (hit.playbook.id, set(hit.arm_ranks)) == (made.id, {"words", "vectors"})


def test_the_next_search_rebuilds_an_index_that_a_dead_writer_damaged(
    opened: Open, tmp_path: Path
) -> None:
    with opened() as library:
        library.create(PlaybookContent(title="rotate certificates"))
        library.search(PlaybookQuery(text="rotate certificates"))
    (tmp_path / "index" / "chroma" / "chroma.sqlite3").write_bytes(b"no database" * 500)
    (tmp_path / "index" / "writing").touch()
    with opened() as library:
        (hit,) = library.search(PlaybookQuery(text="rotate certificates"))
        assert set(hit.arm_ranks) == {"words", "vectors"}
