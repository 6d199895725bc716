"""Keep the vectors of all entries and lessons in one table, and queue changes of all kinds."""

from hashlib import sha256

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    for index in ("passages_by_playbook", "passages_by_model"):
        op.drop_index(index, "passage_vectors")
    op.rename_table("entry_vectors", "old_vectors")
    op.rename_table("passage_vectors", "entry_vectors")
    for table in ("entry_vectors", "outdated", "last_changes"):
        op.alter_column(table, "playbook_key", new_column_name="entry_key")
    is_lesson: sa.Column[bool] = sa.Column(
        "is_lesson", sa.Boolean(), nullable=False, server_default=sa.false()
    )
    op.add_column("entry_vectors", is_lesson)
    op.execute(
        "INSERT INTO entry_vectors (entry_key, model, dimensions, digest, vector) "
        "SELECT entry_key, model, dimensions, '', vector FROM old_vectors"
    )
    op.drop_table("old_vectors")
    op.execute(
        "INSERT INTO outdated (entry_key) SELECT key FROM entries WHERE kind <> 'playbook' "
        "AND status <> 'Revoked' AND key NOT IN (SELECT entry_key FROM entry_vectors)"
    )
    _move_vectors_of_lessons()
    op.create_index("vectors_by_entry", "entry_vectors", ["entry_key"])
    op.create_index("vectors_by_model", "entry_vectors", ["model", "dimensions"])


def downgrade() -> None:
    raise NotImplementedError("an older Harness cannot read these vectors: restore a backup")


def _move_vectors_of_lessons() -> None:
    bind = op.get_bind()
    query = "SELECT playbook_key, text, model, vector FROM lessons WHERE vector IS NOT NULL"
    rows = [
        {
            "entry_key": row.playbook_key,
            "model": row.model,
            "dimensions": len(row.vector) // 4,
            "digest": sha256(row.text.encode("utf-8", "replace")).hexdigest()[:32],
            "vector": bytes(row.vector),
            "is_lesson": True,
        }
        for row in bind.execute(sa.text(query))
    ]
    if rows:
        columns = ", ".join(rows[0])
        given = ", ".join(f":{name}" for name in rows[0])
        statement = f"INSERT INTO entry_vectors ({columns}) VALUES ({given})"  # noqa: S608 - ours
        bind.execute(sa.text(statement), rows)
    for column in ("model", "vector"):
        op.drop_column("lessons", column)
