"""The SQL tables. The database is the truth; all search indexes can be made from it."""

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
    """What is kept is no moment."""


class Timestamp(TypeDecorator[datetime]):
    """An aware moment, kept as text that sorts by time in every database."""

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
            raise InvalidTimestamp(f"{value!r} is no moment") from error


def owner_column(name: str, owner: str, *, primary: bool = True) -> "Column[int]":
    """A column that names the owner of a row; the row is deleted with its owner."""
    key = ForeignKey(owner, ondelete="CASCADE")
    return Column(name, Integer, key, primary_key=primary, nullable=False)


_playbook_key = partial(owner_column, "playbook_key", "playbooks.key")

playbooks = Table(
    "playbooks",
    metadata,
    Column("key", Integer, primary_key=True, autoincrement=True),
    Column("id", String(36), nullable=False, unique=True),
    Column("slug", String(120), nullable=False, unique=True),
    Column("title", String(255), nullable=False),
    Column("use_case", Text, nullable=False),
    Column("process", Text, nullable=False),
    Column("steps", JSON, nullable=False),
    Column("notes", Text, nullable=False),
    Column("category", String(255), nullable=False, index=True),
    Column("tags", JSON, nullable=False),
    Column("status", String(16), nullable=False, index=True),
    Column("version", Integer, nullable=False),
    Column("successes", Integer, nullable=False, default=0),
    Column("partials", Integer, nullable=False, default=0),
    Column("failures", Integer, nullable=False, default=0),
    Column("source", String(255), nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("updated_at", Timestamp, nullable=False),
    Column("last_used_at", Timestamp),
    sqlite_autoincrement=True,  # a key is never used twice: the vector index would mix them up
)

playbook_tags = Table(
    "playbook_tags",
    metadata,
    _playbook_key(),
    Column("tag", String(255), primary_key=True),
)

versions = Table(
    "playbook_versions",
    metadata,
    _playbook_key(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("at", Timestamp, nullable=False),
    Column("source", String(255), nullable=False),
    Column("content", JSON, nullable=False),
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
    Column("model", String(255)),
    Column("vector", LargeBinary),
    UniqueConstraint("playbook_key", "digest", name="one_lesson_once"),
)

executions = Table(
    "executions",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("playbook_key", Integer, ForeignKey("playbooks.key", ondelete="CASCADE"), index=True),
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

playbook_vectors = Table(
    "vectors",
    metadata,
    _playbook_key(),
    Column("model", String(255), nullable=False),
    Column("dimensions", Integer, nullable=False),
    Column("digest", String(32), nullable=False),
    Column("vector", LargeBinary, nullable=False),
    Index("vectors_by_model", "model", "dimensions"),
)

playbook_words = Table(
    "words",
    metadata,
    Column("word", String(64), primary_key=True),
    _playbook_key(),
    Column("impact", Float, nullable=False),
    Index("words_by_impact", "word", "impact", "playbook_key"),
    Index("words_by_playbook", "playbook_key"),
    sqlite_with_rowid=False,
)

outdated_playbooks = Table(
    "outdated",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("playbook_key", Integer, nullable=False),
    sqlite_autoincrement=True,
)
"""Playbooks that were changed since changes were numbered last; written with each change."""

last_changes = Table(
    "last_changes",
    metadata,
    Column("playbook_key", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, nullable=False, unique=True),
)
"""The last change of each playbook, also of those that are gone, counted over all of them.

An index that was brought up to a number lacks what comes after it.
"""

store_ids = Table("store", metadata, Column("id", String(36), primary_key=True))
"""One row: what an index is named after, wherever the database is moved or copied to."""

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
"""How often a run wrote through the playbook tools, and how many playbooks it made."""

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
"""What a run's search found: `shown` is what the prompt held, or would have, had the run not been
held out. What its agent read besides stands there as well, `cited` and not shown."""
