"""Damaged vector indexes, rows and vectors are reported, worked around and repaired."""

import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from uuid import UUID

import pytest
from sqlalchemy import insert, text, update

from memory.content import embedding_text
from memory.database import open_database, write_transaction
from memory.errors import StoreCorrupt
from memory.export_import import export_store
from memory.indexing import EntryText
from memory.playbooks.library import Library
from memory.playbooks.write import playbook_columns
from memory.tables import entries, entry_vectors, outdated_entries
from memory.types import PlaybookContent, PlaybookFilter, PlaybookQuery
from memory.vectors import embeddings, vector_index
from tests.support.forks import Fork
from tests.support.memory import Open, WordEmbedder
from tests.support.spread import spread
from tests.support.stores import new_store

ROOT = Path(__file__).parents[3]
MANY = 1_500
"""Chroma has a graph, which it maps into memory, from 1,000 vectors on."""

Look = Callable[[str], str]


@pytest.fixture
def look(tmp_path: Path, fork: Fork) -> Look:
    """Search or check the test's home in another process; "died" if that crashed."""

    def look_for(what: str) -> str:
        with TemporaryFile() as out, TemporaryFile() as err:
            streams = {"stdout": out, "stderr": err}
            argv = ("tests.support.looking", str(tmp_path), what)
            code = fork(*argv, cwd=ROOT, env=os.environ, **streams).wait()
            return os.pread(out.fileno(), 1 << 16, 0).decode().strip() if code == 0 else "died"

    return look_for


def fill(home: Path) -> None:
    """Many playbooks with their vectors, faster than one by one; without words."""
    engine = open_database(new_store(home / "harness.db"))
    now = datetime.now(UTC)
    texts = [embedding_text(f"item {n}", f"for customer {n % 37}") for n in range(MANY)]
    made = spread(texts)
    same = {"version": 1, "source": "person", "created_at": now, "updated_at": now}
    with write_transaction(engine) as connection:
        for n in range(MANY):
            content = playbook_columns(
                PlaybookContent(title=f"item {n}", use_case=f"for customer {n % 37}")
            )
            row = {
                **content,
                **same,
                "kind": "playbook",
                "key": n + 1,
                "id": str(UUID(int=n)),
                "slug": f"item-{n}",
            }
            connection.execute(insert(entries).values(**row))
            embeddings.put_vector(connection, EntryText(n + 1, texts[n]), "spread", made[n])
        rows = [{"entry_key": n + 1} for n in range(MANY)]
        connection.execute(insert(outdated_entries), rows)
    engine.dispose()


def graph(home: Path) -> Path:
    (found,) = (home / "index").glob("chroma*/*/data_level0.bin")
    return found


def test_a_graph_that_crashes_a_process_is_rebuilt_by_the_next_one(
    tmp_path: Path, look: Look
) -> None:
    fill(tmp_path)
    assert look("search") == "200"
    whole = graph(tmp_path).read_bytes()
    broken = bytearray(whole)
    for start in range(0, len(broken) - 64, 64 * 50):
        broken[start : start + 64] = b"\xfe" * 64
    graph(tmp_path).write_bytes(broken)
    look("search")
    assert look("search") == "200"
    for bad in (bytes(broken), bytes(len(whole))):
        graph(tmp_path).write_bytes(bad)
        assert look("repair") == ""


@pytest.fixture(
    params=[
        "content = '{\"titl'",
        "content = REPLACE(content, 'active', 'actixe')",
        "updated_at = '2O26-01-01'",
    ]
)
def damaged(
    request: pytest.FixtureRequest, on_sqlite: Library, caplog: pytest.LogCaptureFixture
) -> Iterator[tuple[Library, str]]:
    """A library with three playbooks, and the id of the one whose row is damaged."""
    made = [on_sqlite.create(PlaybookContent(title=f"rotate keys {n}")) for n in range(3)]
    with write_transaction(on_sqlite.engine) as connection:
        values = f"UPDATE entries SET {request.param} WHERE key = :key"  # noqa: S608 - ours
        connection.execute(text(values), {"key": made[1].key})
    with caplog.at_level(logging.WARNING):
        yield on_sqlite, made[1].id


def test_a_damaged_row_is_left_out_with_one_warning(
    damaged: tuple[Library, str], caplog: pytest.LogCaptureFixture
) -> None:
    library, id_ = damaged
    assert len(library.search(PlaybookQuery(text="rotate keys"))) == 2
    assert len(library.list(PlaybookFilter(archived=True))) == 2
    library.reindex()
    assert caplog.text.count(id_) == 1
    assert [(f.name, id_ in f.advice) for f in library.doctor() if not f.ok] == [
        ("playbooks", True)
    ]


def test_an_export_fails_on_a_damaged_row(damaged: tuple[Library, str]) -> None:
    library, id_ = damaged
    with pytest.raises(StoreCorrupt, match=f"{id_}.* of table 'entries'.*command `rm`"):
        list(export_store(library))
    with pytest.raises(StoreCorrupt, match=id_):
        library.get(id_)
    assert library.delete(id_)
    assert len(list(export_store(library))) == 2
    assert [finding for finding in library.doctor() if not finding.ok] == []


def test_a_vector_cut_short_is_embedded_again(library: Library, words: WordEmbedder) -> None:
    for title in ("rotate keys", "bake bread"):
        library.create(PlaybookContent(title=title))
    library.search(PlaybookQuery(text="bread"))
    with write_transaction(library.engine) as connection:
        cut = update(entry_vectors).where(entry_vectors.c.entry_key == 1)
        connection.execute(cut.values(vector=b"\0\x11\x22"))
    assert [finding.name for finding in library.doctor() if not finding.ok] == [
        "waiting",
        "vectors",
    ]
    assert [finding for finding in library.doctor(repair=True) if not finding.ok] == []
    assert words.texts.count("rotate keys") == 3  # to keep it, to ask for it, and to mend it
    (hit,) = library.search(PlaybookQuery(text="rotate keys", max_distance=0.1))
    assert set(hit.arm_ranks) == {"words", "vectors"}


def test_an_empty_current_file_does_not_make_a_rebuild_delete_the_lock(
    opened: Open, tmp_path: Path
) -> None:
    with opened() as library:
        library.create(PlaybookContent(title="rotate keys"))
        library.search(PlaybookQuery(text="keys"))
        (tmp_path / "index" / "current").write_text("")
        library.reindex()
        assert (tmp_path / "index" / "lock").exists()
        (hit,) = library.search(PlaybookQuery(text="rotate keys"))
        assert set(hit.arm_ranks) == {"words", "vectors"}


def test_a_stopped_process_with_the_index_lock_delays_others_only_until_a_timeout(
    on_sqlite: Library,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(vector_index, "LOCK_TIMEOUT_S", 0.1)
    on_sqlite.create(PlaybookContent(title="rotate keys"))
    on_sqlite.search(PlaybookQuery(text="keys"))
    with (tmp_path / "index" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (hit,) = on_sqlite.search(PlaybookQuery(text="rotate keys"))
        assert set(hit.arm_ranks) == {"words"}
        assert caplog.text.count("has locked the vector index") == 1
    (hit,) = on_sqlite.search(PlaybookQuery(text="rotate keys"))
    assert set(hit.arm_ranks) == {"words", "vectors"}
