"""Playbooks, their history, executions, vectors, words and what runs were shown."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "outdated",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("playbook_key", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "playbooks",
        sa.Column("key", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("slug", sa.String(length=120), nullable=False),
        sa.Column("title", sa.String(length=255), nullable=False),
        sa.Column("use_case", sa.Text(), nullable=False),
        sa.Column("process", sa.Text(), nullable=False),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("category", sa.String(length=255), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("successes", sa.Integer(), nullable=False),
        sa.Column("partials", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=False),
        sa.Column("last_used_at", sa.String(length=32), nullable=True),
        sa.PrimaryKeyConstraint("key"),
        sa.UniqueConstraint("id"),
        sa.UniqueConstraint("slug"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("playbooks", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_playbooks_category"), ["category"], unique=False)
        batch_op.create_index(batch_op.f("ix_playbooks_status"), ["status"], unique=False)

    op.create_table(
        "recalls",
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("held_out", sa.Boolean(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.create_table(
        "executions",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("playbook_key", sa.Integer(), nullable=True),
        sa.Column("playbook_version", sa.Integer(), nullable=True),
        sa.Column("run_id", sa.String(length=64), nullable=True),
        sa.Column("agent", sa.String(length=255), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("started_at", sa.String(length=32), nullable=True),
        sa.Column("completed_at", sa.String(length=32), nullable=False),
        sa.Column("expires_at", sa.String(length=32), nullable=True),
        sa.Column("step_results", sa.JSON(), nullable=False),
        sa.Column("reflection", sa.JSON(), nullable=True),
        sa.Column("reflection_applied", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["playbook_key"], ["playbooks.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("run_id", "playbook_key", name="one_execution_a_run"),
    )
    with op.batch_alter_table("executions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_executions_outcome"), ["outcome"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_executions_playbook_key"), ["playbook_key"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_executions_run_id"), ["run_id"], unique=False)

    op.create_table(
        "lessons",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("playbook_key", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=32), nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=True),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.Column("model", sa.String(length=255), nullable=True),
        sa.Column("vector", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["playbook_key"], ["playbooks.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("playbook_key", "digest", name="one_lesson_once"),
    )
    op.create_table(
        "playbook_tags",
        sa.Column("playbook_key", sa.Integer(), nullable=False),
        sa.Column("tag", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["playbook_key"], ["playbooks.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("playbook_key", "tag"),
    )
    op.create_table(
        "playbook_versions",
        sa.Column("playbook_key", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["playbook_key"], ["playbooks.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("playbook_key", "version"),
    )
    op.create_table(
        "recalled",
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("playbook_id", sa.String(length=36), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("grouped", sa.String(length=16), nullable=False),
        sa.Column("shown", sa.Boolean(), nullable=False),
        sa.Column("cited", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["recalls.run_id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "playbook_id"),
    )
    op.create_table(
        "vectors",
        sa.Column("playbook_key", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("dimensions", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=32), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["playbook_key"], ["playbooks.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("playbook_key"),
    )
    op.create_table(
        "words",
        sa.Column("word", sa.String(length=64), nullable=False),
        sa.Column("playbook_key", sa.Integer(), nullable=False),
        sa.Column("impact", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["playbook_key"], ["playbooks.key"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("word", "playbook_key"),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("words", schema=None) as batch_op:
        batch_op.create_index("words_by_impact", ["word", "impact", "playbook_key"], unique=False)
        batch_op.create_index("words_by_playbook", ["playbook_key"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("words", schema=None) as batch_op:
        batch_op.drop_index("words_by_playbook")
        batch_op.drop_index("words_by_impact")

    op.drop_table("words")
    op.drop_table("vectors")
    op.drop_table("recalled")
    op.drop_table("playbook_versions")
    op.drop_table("playbook_tags")
    op.drop_table("lessons")
    with op.batch_alter_table("executions", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_executions_run_id"))
        batch_op.drop_index(batch_op.f("ix_executions_playbook_key"))
        batch_op.drop_index(batch_op.f("ix_executions_outcome"))

    op.drop_table("executions")
    op.drop_table("recalls")
    with op.batch_alter_table("playbooks", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_playbooks_status"))
        batch_op.drop_index(batch_op.f("ix_playbooks_category"))

    op.drop_table("playbooks")
    op.drop_table("outdated")
