"""SQL tables of the notebook, and the transaction in which they are written.

They are part of the same database, and of the same migrations, as the playbook tables.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    update,
)

from memory.database import write_transaction
from memory.tables import Timestamp, metadata, owner_column

entries = Table(
    "entries",
    metadata,
    Column("key", Integer, primary_key=True, autoincrement=True),
    Column("id", String(36), nullable=False, unique=True),
    Column("kind", String(8), nullable=False),
    Column("type", String(16), nullable=False),
    Column("note_type", String(64), nullable=False),
    Column("text", Text, nullable=False),
    Column("output", Text, nullable=False),
    Column("score", Integer),
    Column("scope", String(32), nullable=False),
    Column("agent", String(255)),
    Column("user_id", String(255)),
    Column("company", String(255)),
    Column("status", String(16), nullable=False),
    Column("expires_at", Timestamp),
    Column("protection", String(16), nullable=False),
    Column("confidence", Integer),
    Column("flags", JSON, nullable=False),
    Column("digest", String(32), nullable=False),
    Column("author", String(16), nullable=False),
    Column("author_name", String(255), nullable=False),
    Column("source_run", String(64), index=True),
    Column("version", Integer, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Index("entries_by_scope", "kind", "scope", "status"),
    Index("entries_by_update", "kind", "updated_at"),
    Index("entries_by_digest", "kind", "digest"),
    sqlite_autoincrement=True,
)
"""Notes and examples. `text` is the searchable text: the note, or the example's input. `scope` is
the key that `memory.scope` computes of agent, user and company."""

entry_versions = Table(
    "entry_versions",
    metadata,
    owner_column("entry_key", "entries.key"),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("at", Timestamp, nullable=False),
    Column("author", String(16), nullable=False),
    Column("author_name", String(255), nullable=False),
    Column("content", JSON, nullable=False),
)

entry_vectors = Table(
    "entry_vectors",
    metadata,
    owner_column("entry_key", "entries.key"),
    Column("model", String(255), nullable=False),
    Column("dimensions", Integer, nullable=False),
    Column("vector", LargeBinary, nullable=False),
)
"""Embeddings of `entries.text`. A revoked entry has none."""

note_types = Table(
    "note_types",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("type", String(16), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("description", Text, nullable=False),
    Column("standard", Boolean, nullable=False),
)

agent_settings = Table(
    "agent_settings",
    metadata,
    Column("agent", String(255), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("settings", JSON, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
)

generation = Table(
    "notebook_generation",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, nullable=False),
)
"""One row, which every writer updates first: see `notebook_transaction`."""

shown_entries = Table(
    "shown_entries",
    metadata,
    Column("run_id", String(64), primary_key=True),
    Column("node", String(255), primary_key=True),
    Column("entry_id", String(36), primary_key=True, index=True),
    Column("entry_version", Integer, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("at", Timestamp, nullable=False),
)
"""Notes and examples that each node of a run was given."""

ratings = Table(
    "ratings",
    metadata,
    Column("run_id", String(64), primary_key=True),
    Column("score", Integer, nullable=False),
    Column("author_name", String(255), nullable=False),
    Column("at", Timestamp, nullable=False),
)

curations = Table(
    "curations",
    metadata,
    Column("run_id", String(64), primary_key=True),
    Column("at", Timestamp, nullable=False),
    Column("written", Integer, nullable=False),
    Column("outcome", JSON, nullable=False),
)
"""Runs that were curated, and the result."""


@contextmanager
def notebook_transaction(engine: Engine) -> Iterator[Connection]:
    """Yield the connection of a transaction that writes to the notebook.

    Only one such transaction runs at a time, on Postgres too: the row of `generation` that it
    updates first is locked until it ends.
    """
    with write_transaction(engine) as connection:
        connection.execute(update(generation).values(number=generation.c.number + 1))
        yield connection
