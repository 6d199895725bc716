"""A database of an earlier version is brought up to date when it is opened."""

import sqlite3
from contextlib import closing
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, MetaData, create_engine, func, inspect, text

import migrations
from contracts.agents import AGENTS
from memory.database import open_database, read_transaction
from memory.export_import import export_store
from memory.notes.notebook import open_notebook
from memory.notes.types import Entry
from memory.playbooks.library import open_library
from memory.scope import Scope
from memory.types import PlaybookQuery
from memory.vectors.embeddings import load_vectors, texts_to_embed
from tests.support.memory import WordEmbedder

ENTITY = "a" * 64
PLAYBOOK = (
    "INSERT INTO playbooks (key, id, slug, title, use_case, process, steps, notes, category, tags, "
    "status, version, successes, partials, failures, source, created_at, updated_at) "
    "VALUES (1, 'id', 'rotate-keys', 'rotate keys', '', '', '[]', '', '', '[]', 'active', 1, 0, 0, "
    "0, 'person', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00')"
)
OLD = Path(__file__).with_name("home_0012.sql")
"""A home of the version before, with everything that it could hold, and beside it its export."""


def at_revision(location: str | Path, revision: str) -> Engine:
    """Make the database of an earlier version."""
    url = f"sqlite:///{location}" if isinstance(location, Path) else location
    engine = create_engine(url)
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    return engine


def old_home(location: str | Path, folder: Path) -> None:
    """Make the database of `OLD`; on Postgres by copying every row of one on SQLite."""
    file = location if isinstance(location, Path) else folder / "old.db"
    with closing(sqlite3.connect(file)) as made:
        made.executescript(OLD.read_text())
    if location is file:
        return
    engine, source = at_revision(str(location), "0012"), create_engine(f"sqlite:///{file}")
    tables, there = MetaData(), MetaData()
    tables.reflect(engine)
    there.reflect(source)
    with engine.begin() as connection, source.connect() as read:
        for table in tables.sorted_tables:
            if table.name == "alembic_version":
                continue
            rows = [row._asdict() for row in read.execute(there.tables[table.name].select())]
            if rows:
                connection.execute(table.delete())
                connection.execute(table.insert(), rows)
            (key, *_) = table.primary_key.columns
            if key.server_default is not None:  # rows with keys of their own leave it behind
                sequence = func.pg_get_serial_sequence(table.name, key.name)
                newest = connection.execute(func.max(key).select()).scalar() or 1
                connection.execute(func.setval(sequence, newest).select())
    for one in (engine, source):
        one.dispose()


def test_a_store_that_has_vectors_of_entities_loses_them_and_keeps_the_entities(
    no_tables: str | Path,
) -> None:
    engine = at_revision(no_tables, "0008")
    with engine.begin() as connection:
        values = {"id": ENTITY}
        connection.execute(text("INSERT INTO entities VALUES (:id, 'prompt', '{}')"), values)
        connection.execute(text("INSERT INTO entity_vectors VALUES (:id, 'm', 1, '0000')"), values)
    engine.dispose()
    engine = open_database(no_tables)
    assert not inspect(engine).has_table("entity_vectors")
    with read_transaction(engine) as connection:
        assert connection.execute(text("SELECT id FROM entities")).scalar_one() == ENTITY
    engine.dispose()


def test_a_store_with_one_vector_for_each_playbook_keeps_it(no_tables: str | Path) -> None:
    engine = at_revision(no_tables, "0010")
    with engine.begin() as connection:
        connection.execute(text(PLAYBOOK))
        row = "(playbook_key, model, dimensions, digest, vector) VALUES (1, 'm', 2, '', :vector)"
        vector = {"vector": b"\0\0\x80\x3f\0\0\0\x3f"}
        connection.execute(text(f"INSERT INTO vectors {row}"), vector)
    engine.dispose()
    engine = open_database(no_tables)
    with read_transaction(engine) as connection:
        ((_, made),) = load_vectors(connection, "m", [1])[1]
        assert made == [1.0, 0.5]
        assert texts_to_embed(connection, [1]) == []
    engine.dispose()


def test_a_home_of_the_version_before_keeps_everything(
    no_tables: str | Path, tmp_path: Path
) -> None:
    old_home(no_tables, tmp_path)
    words = WordEmbedder(length=8)
    index = tmp_path / "index"
    with open_library(no_tables, index=index, embedder=words.embedder) as library:
        assert list(export_store(library)) == OLD.with_suffix(".jsonl").read_text().splitlines()
        (hit,) = library.search(PlaybookQuery(text="signing keys", limit=1))
        assert hit.playbook.slug == "rotate-signing-keys"
        assert set(hit.arm_ranks) == {"words", "vectors"}
        assert words.texts == ["signing keys"], "no vector was made again"
        assert len(library.waiting_reflections()) == 2
        assert [check for check in library.doctor() if not check.ok] == []
    with open_notebook(no_tables, agents=AGENTS, embedder=words.embedder) as book:
        assert book.runs.rating("r1") is not None
        before = len(words.texts)
        assert book.inject(Scope(user="ann"), "two spaces").without_vector == 0
        assert words.texts[before:] == ["two spaces"], "no vector was made again"
        found: list[Entry] = [*book.list("note"), *book.list("example")]
        assert len({one.key for one in found}) == 7
        assert {one.entry_id for one in book.runs.injected_into("r1")} <= {one.id for one in found}
