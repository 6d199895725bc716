"""SQL tables of playbooks, notes and examples. All search indexes are derived from them."""

from datetime import UTC, datetime
from functools import partial

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeDecorator

metadata = MetaData()


class InvalidTimestamp(ValueError):
    """A stored value that is not a timestamp."""


class Timestamp(TypeDecorator[datetime]):
    """An aware datetime, stored as text in UTC that sorts by time in every database."""

    impl = String(32)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        del dialect
        return value.astimezone(UTC).isoformat(timespec="microseconds") if value else None

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        del dialect
        try:
            return datetime.fromisoformat(value) if value else None
        except ValueError as error:
            raise InvalidTimestamp(f"{value!r} is not a timestamp") from error


def owner_column(name: str, owner: str, *, primary: bool = True) -> "Column[int]":
    """Return a column that refers to a row's owner; the row is deleted with its owner."""
    key = ForeignKey(owner, ondelete="CASCADE")
    return Column(name, Integer, key, primary_key=primary, nullable=False)


entries = Table(
    "entries",
    metadata,
    Column("key", Integer, primary_key=True, autoincrement=True),
    Column("id", String(36), nullable=False, unique=True),
    Column("kind", String(8), nullable=False),
    Column("slug", String(120), nullable=False, unique=True),
    Column("content", JSON, nullable=False),
    Column("version", Integer, nullable=False),
    Column("source", String(255), nullable=False),
    Column("source_run", String(64), index=True),
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    # Copied from the content, for lists and searches:
    Column("text", Text, nullable=False),
    Column("output", Text, nullable=False, default=""),
    Column("status", String(16), nullable=False),
    Column("type", String(16), nullable=False, default=""),
    Column("category", String(255), nullable=False, default=""),
    Column("score", Integer),
    Column("scope", String(32), nullable=False, default=""),
    Column("agent", String(255)),
    Column("user_id", String(255)),
    Column("company", String(255)),
    Column("expires_at", Timestamp),
    Column("digest", String(32), nullable=False, default=""),
    # What runs, the curator and reviews add:
    Column("successes", Integer, nullable=False, default=0),
    Column("partials", Integer, nullable=False, default=0),
    Column("failures", Integer, nullable=False, default=0),
    Column("last_used_at", Timestamp),
    Column("confidence", Integer),
    Column("flags", JSON, nullable=False, default=list),
    Column("evidence", Text, nullable=False, default=""),
    Index("entries_by_kind", "kind", "key"),
    Index("entries_by_category", "kind", "category"),
    Index("entries_by_scope", "kind", "scope", "status"),
    Index("entries_by_update", "kind", "updated_at"),
    Index("entries_by_digest", "kind", "digest"),
    sqlite_autoincrement=True,  # keys are never reused: the vector index refers to them
)
"""Playbooks, notes and examples: the newest version of each.

`slug` is a playbook's name, and the id of the others. `text` is a playbook's title, a note, or an
example's input. `category` is a note's note type. `scope` is the key that `memory.scope` computes
of agent, user and company. `source` is the author of the first version."""

entry_versions = Table(
    "entry_versions",
    metadata,
    owner_column("entry_key", "entries.key"),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("at", Timestamp, nullable=False),
    Column("source", String(255), nullable=False),
    Column("content", JSON, nullable=False),
)

_playbook_key = partial(owner_column, "playbook_key", "entries.key")

playbook_tags = Table(
    "playbook_tags",
    metadata,
    _playbook_key(),
    Column("tag", String(255), primary_key=True),
)

lessons = Table(
    "lessons",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    _playbook_key(primary=False),
    Column("text", Text, nullable=False),
    Column("digest", String(32), nullable=False),
    Column("run_id", String(64)),
    Column("at", Timestamp, nullable=False),
    UniqueConstraint("playbook_key", "digest", name="one_lesson_once"),
)

executions = Table(
    "executions",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("playbook_key", Integer, ForeignKey("entries.key", ondelete="CASCADE"), index=True),
    Column("playbook_version", Integer),
    Column("run_id", String(64), index=True),
    Column("agent", String(255), nullable=False),
    Column("task", Text, nullable=False),
    Column("outcome", String(16), nullable=False, index=True),
    Column("started_at", Timestamp),
    Column("completed_at", Timestamp, nullable=False),
    Column("expires_at", Timestamp),
    Column("step_results", JSON, nullable=False),
    Column("reflection", JSON),
    Column("reflection_applied", Boolean, nullable=False, default=False),
    UniqueConstraint("run_id", "playbook_key", name="one_execution_a_run"),
)

entry_vectors = Table(
    "entry_vectors",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    owner_column("entry_key", "entries.key", primary=False),
    Column("model", String(255), nullable=False),
    Column("dimensions", Integer, nullable=False),
    Column("digest", String(32), nullable=False, default=""),
    Column("is_lesson", Boolean, nullable=False, default=False),
    Column("vector", LargeBinary, nullable=False),
    Index("vectors_by_entry", "entry_key"),
    Index("vectors_by_model", "model", "dimensions"),
    sqlite_autoincrement=True,  # ids are never reused: the vector index refers to them
)
"""Embeddings of the passages and lessons of a playbook, and of a note or an example; with the
digest of the text. A vector of an older version has no digest, until a change or `reindex`."""

embedding_models = Table(
    "embedding_models",
    metadata,
    Column("model", String(255), primary_key=True),
    Column("max_distance", Float, nullable=False),
)
"""The distance limit that was measured for each model, see `memory.vectors.calibrate`."""

entry_words = Table(
    "words",
    metadata,
    Column("word", String(64), primary_key=True),
    owner_column("entry_key", "entries.key"),
    Column("impact", Float, nullable=False),
    Index("words_by_impact", "word", "impact", "entry_key"),
    Index("words_by_entry", "entry_key"),
    sqlite_with_rowid=False,
)
"""The stem of each word of an entry, with the entry's part of its BM25 score."""

outdated_entries = Table(
    "outdated",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("entry_key", Integer, nullable=False),
    sqlite_autoincrement=True,
)
"""Changes of entries that have no number yet, see `last_changes`."""

last_changes = Table(
    "last_changes",
    metadata,
    Column("entry_key", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, nullable=False, unique=True),
)
"""The number of the last change of each entry, also of deleted ones. Numbers count over all
entries; a vector index that has number n lacks the changes after n."""

store_ids = Table("store", metadata, Column("id", String(36), primary_key=True))
"""One row: the id that vector indexes are named after; a copied database keeps it."""

recalls = Table(
    "recalls",
    metadata,
    Column("run_id", String(64), primary_key=True),
    Column("at", Timestamp, nullable=False),
    Column("task", Text, nullable=False),
    Column("held_out", Boolean, nullable=False),
    Column("share", Float),
    Column("outcome", String(16)),
)

run_writes = Table(
    "run_writes",
    metadata,
    Column("run_id", String(64), primary_key=True),
    Column("created", Integer, nullable=False),
    Column("writes", Integer, nullable=False),
)
"""Number of writes of a run through the playbook tools, and of playbooks it created."""

recalled_playbooks = Table(
    "recalled",
    metadata,
    Column("run_id", String(64), ForeignKey("recalls.run_id"), primary_key=True),
    Column("playbook_id", String(36), primary_key=True),
    Column("rank", Integer, nullable=False),
    Column("score", Float, nullable=False),
    Column("grouped", String(16), nullable=False),
    Column("shown", Boolean, nullable=False),
    Column("cited", Boolean, nullable=False, default=False),
)
"""Playbooks that a run's search found. `shown`: its prompt held the playbook, or would have if the
run had not been held out. A playbook that only the agent itself found and read is `cited`."""

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
