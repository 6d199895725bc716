"""A Chroma server: the same searches, and words only when it does not answer."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from memory.database import open_database, read_transaction
from memory.playbooks.library import open_library
from memory.types import PlaybookChanges, PlaybookContent, PlaybookQuery
from memory.vectors.vector_index import index_name
from tests.support.chroma_server import chroma
from tests.support.memory import Open, WordEmbedder
from tests.support.postgres import new_postgres_store
from tests.support.stores import new_store


@pytest.fixture(scope="module")
def chroma_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chroma(tmp_path_factory.mktemp("served")) as (url, _):
        yield url


def test_a_server_index_follows_changes_and_can_be_rebuilt(opened: Open, chroma_url: str) -> None:
    with opened(chroma_url=chroma_url) as library:
        made = library.create(PlaybookContent(title="rotate certificates", tags=("a",)))
        other = library.create(PlaybookContent(title="bake bread"))
        (hit,) = library.search(PlaybookQuery(text="rotate certificates"))
        assert (hit.playbook.id, set(hit.arm_ranks)) == (made.id, {"words", "vectors"})
        library.update(made.id, PlaybookChanges(status="archived"))
        library.delete(other.id)
        assert library.search(PlaybookQuery(text="rotate certificates")) == []
        library.reindex()
        assert [finding for finding in library.doctor() if not finding.ok] == []


def test_searches_use_words_only_after_the_server_died(
    tmp_path: Path, words: WordEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    store, index = new_store(tmp_path / "harness.db"), tmp_path / "index"
    with (
        chroma(tmp_path / "served") as (url, server),
        open_library(store, index=index, embedder=words.embedder, chroma_url=url) as library,
    ):
        library.create(PlaybookContent(title="rotate certificates"))
        places = []
        for query in ("rotate", "certificates", "rotate certificates"):
            (hit,) = library.search(PlaybookQuery(text=query))
            places.append(set(hit.arm_ranks))
            server.kill()
            server.wait()
        library.reindex()
        findings = {finding.name: finding.ok for finding in library.doctor()}
    assert places == [{"words", "vectors"}, {"words"}, {"words"}]
    assert not findings["vectors"]
    told = [record.message for record in caplog.records if record.name.startswith("memory")]
    assert len(told) == 1
    assert "words only: no Chroma answers" in told[0]


def test_the_index_name_of_a_store_behind_a_socket_does_not_depend_on_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_database(new_postgres_store())
    with read_transaction(engine) as connection:
        folder = connection.execute(text("SHOW unix_socket_directories")).scalar_one()
    place = {"host": folder, "port": str(engine.url.port)}
    local = open_database(
        engine.url.set(host=None, port=None, query=place).render_as_string(hide_password=False)
    )
    names = set()
    for where in (tmp_path, tmp_path.parent):
        monkeypatch.chdir(where)
        names.add(index_name(local, "words", served=True))
    local.dispose()
    engine.dispose()
    assert len(names) == 1


def test_an_unreachable_server_is_warned_of_once_and_searches_use_words_only(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        opened(chroma_url="http://me:secret@127.0.0.1:9") as library,
        caplog.at_level(logging.WARNING),
    ):
        made = library.create(PlaybookContent(title="rotate certificates"))
        for _ in range(2):
            (hit,) = library.search(PlaybookQuery(text="rotate certificates"))
            assert (hit.playbook.id, set(hit.arm_ranks)) == (made.id, {"words"})
    assert len([record for record in caplog.records if "words only" in record.message]) == 1
    assert "secret" not in caplog.text
