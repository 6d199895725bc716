"""Keep playbooks, notes and examples in one table, and the versions of all three in another."""

import json
from collections.abc import Mapping

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_SAID = ("title", "use_case", "process", "steps", "notes", "category", "tags", "status")
"""Columns of a playbook that are its content."""

_COPIED = (
    *("id", "kind", "type", "text", "output", "score", "scope", "agent", "user_id", "company"),
    *("status", "expires_at", "confidence", "flags", "evidence", "digest", "source_run"),
    *("version", "created_at", "updated_at"),
)
"""Columns of notes and examples that keep their name."""


def upgrade() -> None:
    for index in ("entries_by_scope", "entries_by_update", "entries_by_digest"):
        op.drop_index(index, "entries")
    op.drop_index("ix_entries_source_run", "entries")
    for table in ("entries", "entry_versions", "entry_vectors"):
        op.rename_table(table, f"old_{table}")
    op.rename_table("playbooks", "entries")
    op.rename_table("playbook_versions", "entry_versions")
    op.alter_column("entry_versions", "playbook_key", new_column_name="entry_key")
    _add_columns()
    _fill_content_of_playbooks()
    for index in ("ix_playbooks_category", "ix_playbooks_status"):
        op.drop_index(index, "entries")
    for column in ("title", "use_case", "process", "steps", "notes", "tags"):
        op.drop_column("entries", column)
    _copy_notes()
    for table in ("old_entry_vectors", "old_entry_versions", "old_entries", "notebook_generation"):
        op.drop_table(table)
    op.create_index("entries_by_kind", "entries", ["kind", "key"])
    op.create_index("entries_by_category", "entries", ["kind", "category"])
    op.create_index("entries_by_scope", "entries", ["kind", "scope", "status"])
    op.create_index("entries_by_update", "entries", ["kind", "updated_at"])
    op.create_index("entries_by_digest", "entries", ["kind", "digest"])
    op.create_index("ix_entries_source_run", "entries", ["source_run"])


def downgrade() -> None:
    raise NotImplementedError("an older Harness cannot read these entries: restore a backup")


def _add_columns() -> None:
    def text(name: str, length: int | None, default: str = "") -> "sa.Column[str]":
        type_ = sa.String(length=length) if length else sa.Text()
        return sa.Column(name, type_, nullable=False, server_default=default)

    for column in (
        text("kind", 8, "playbook"),
        sa.Column("content", sa.JSON(), nullable=False, server_default="{}"),
        text("text", None),
        text("output", None),
        text("type", 16),
        text("scope", 32),
        text("digest", 32),
        text("evidence", None),
        sa.Column("score", sa.Integer(), nullable=True),
        sa.Column("agent", sa.String(length=255), nullable=True),
        sa.Column("user_id", sa.String(length=255), nullable=True),
        sa.Column("company", sa.String(length=255), nullable=True),
        sa.Column("expires_at", sa.String(length=32), nullable=True),
        sa.Column("confidence", sa.Integer(), nullable=True),
        sa.Column("flags", sa.JSON(), nullable=False, server_default="[]"),
        sa.Column("source_run", sa.String(length=64), nullable=True),
    ):
        op.add_column("entries", column)


def _fill_content_of_playbooks() -> None:
    """Join the columns to one JSON object. Steps that are no JSON stay as they are."""
    bind = op.get_bind()
    said = ", ".join(f"CAST({name} AS TEXT) AS {name}" for name in _SAID)
    rows = bind.execute(sa.text(f"SELECT key, {said} FROM entries")).mappings()  # noqa: S608 - ours
    contents = [{"key": row["key"], "content": _content(dict(row))} for row in rows]
    given = ":content" if bind.dialect.name == "sqlite" else "CAST(:content AS JSON)"
    statement = f"UPDATE entries SET text = title, content = {given} WHERE key = :key"  # noqa: S608
    if contents:
        bind.execute(sa.text(statement), contents)


def _content(row: Mapping[str, object]) -> str:
    is_json = ("steps", "tags")
    parts = (
        f'"{name}": {row[name] if name in is_json else json.dumps(row[name])}' for name in _SAID
    )
    return "{" + ", ".join(parts) + "}"


def _copy_notes() -> None:
    """Copy notes and examples behind the playbooks: their keys change, their ids do not."""
    copied = ", ".join(_COPIED)
    op.execute(
        f"INSERT INTO entries ({copied}, slug, category, content, source, "  # noqa: S608 - ours
        "successes, partials, failures) "
        f"SELECT {', '.join(f'note.{name}' for name in _COPIED)}, note.id, note.note_type, "
        f"newest.content, {_source('note')}, 0, 0, 0 FROM old_entries AS note "
        "JOIN old_entry_versions AS newest "
        "ON newest.entry_key = note.key AND newest.version = note.version ORDER BY note.key"
    )
    new_key = "JOIN old_entries ON old_entries.key = old.entry_key JOIN entries USING (id)"
    op.execute(
        "INSERT INTO entry_versions (entry_key, version, at, source, content) "  # noqa: S608 - ours
        f"SELECT entries.key, old.version, old.at, {_source('old')}, old.content "
        f"FROM old_entry_versions AS old {new_key}"
    )
    owner = sa.ForeignKey("entries.key", ondelete="CASCADE")
    op.create_table(
        "entry_vectors",
        sa.Column("entry_key", sa.Integer(), owner, nullable=False),
        sa.PrimaryKeyConstraint("entry_key"),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("dimensions", sa.Integer(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
    )
    op.execute(
        "INSERT INTO entry_vectors (entry_key, model, dimensions, vector) "  # noqa: S608 - ours
        "SELECT entries.key, old.model, old.dimensions, old.vector "
        f"FROM old_entry_vectors AS old {new_key}"
    )


def _source(table: str) -> str:
    """Return SQL for the author of a row as one text: `person ann`."""
    return f"SUBSTR(TRIM({table}.author || ' ' || {table}.author_name), 1, 255)"
