"""Notes, examples, their history and vectors, note types, agents' settings, ratings, curations."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_STANDARD_TYPES = {"Constraint": 100, "Preference": 80, "Issue": 60, "Context": 40, "Example": 20}


def upgrade() -> None:
    op.create_table(
        "entries",
        sa.Column("key", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("type", sa.String(length=16), nullable=False),
        sa.Column("note_type", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("output", sa.Text(), nullable=False),
        sa.Column("score", sa.Integer(), nullable=True),
        sa.Column("scope", sa.String(length=32), nullable=False),
        sa.Column("agent", sa.String(length=255), nullable=True),
        sa.Column("user_id", sa.String(length=255), nullable=True),
        sa.Column("company", sa.String(length=255), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("expires_at", sa.String(length=32), nullable=True),
        sa.Column("protection", sa.String(length=16), nullable=False),
        sa.Column("confidence", sa.Integer(), nullable=True),
        sa.Column("flags", sa.JSON(), nullable=False),
        sa.Column("digest", sa.String(length=32), nullable=False),
        sa.Column("author", sa.String(length=16), nullable=False),
        sa.Column("author_name", sa.String(length=255), nullable=False),
        sa.Column("source_run", sa.String(length=64), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("key"),
        sa.UniqueConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("entries_by_scope", "entries", ["kind", "scope", "status"])
    op.create_index("entries_by_update", "entries", ["kind", "updated_at"])
    op.create_index("entries_by_digest", "entries", ["kind", "digest"])
    op.create_index("ix_entries_source_run", "entries", ["source_run"])
    op.create_table(
        "entry_versions",
        _entry_key(),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.Column("author", sa.String(length=16), nullable=False),
        sa.Column("author_name", sa.String(length=255), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("entry_key", "version"),
    )
    op.create_table(
        "entry_vectors",
        _entry_key(),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("dimensions", sa.Integer(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("entry_key"),
    )
    _note_types()
    op.create_table(
        "agent_settings",
        sa.Column("agent", sa.String(length=255), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("agent"),
    )
    generation = op.create_table(
        "notebook_generation",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.bulk_insert(generation, [{"id": 1, "number": 0}])
    _runs()


def downgrade() -> None:
    for table in (
        "curations",
        "ratings",
        "shown_entries",
        "notebook_generation",
        "agent_settings",
        "note_types",
        "entry_vectors",
        "entry_versions",
        "entries",
    ):
        op.drop_table(table)


def _entry_key() -> "sa.Column[int]":
    owner = sa.ForeignKey("entries.key", ondelete="CASCADE")
    return sa.Column("entry_key", sa.Integer(), owner, nullable=False)


def _note_types() -> None:
    note_types = op.create_table(
        "note_types",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("type", sa.String(length=16), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("standard", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    rows = [
        {"name": name, "type": name, "priority": priority, "description": "", "standard": True}
        for name, priority in _STANDARD_TYPES.items()
    ]
    op.bulk_insert(note_types, rows)


def _runs() -> None:
    op.create_table(
        "shown_entries",
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("node", sa.String(length=255), nullable=False),
        sa.Column("entry_id", sa.String(length=36), nullable=False),
        sa.Column("entry_version", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "node", "entry_id"),
    )
    op.create_index("ix_shown_entries_entry_id", "shown_entries", ["entry_id"])
    op.create_table(
        "ratings",
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("score", sa.Integer(), nullable=False),
        sa.Column("author_name", sa.String(length=255), nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.create_table(
        "curations",
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.Column("written", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("run_id"),
    )
