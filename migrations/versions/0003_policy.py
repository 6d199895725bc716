"""Prompts, plans, entities, the event log and approvals; what is appended stays as it is."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

APPEND_ONLY = {
    "events": ("id", "number"),
    "event_entities": ("event", "role", "place"),
    "entities": ("id",),
    "entity_edges": ("source", "kind", "target"),
    "prompts": ("id",),
    "plans": ("id",),
}
"""Each table and what makes a row unique; of `events` each column alone."""


def upgrade() -> None:
    op.create_table(
        "prompts",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "plans",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("prompt", sa.String(length=64), nullable=False),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_plans_prompt", "plans", ["prompt"])
    _create_entities()
    _create_events()
    op.create_table(
        "approvals",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("op", sa.String(length=255), nullable=False),
        sa.Column("arguments", sa.JSON(), nullable=False),
        sa.Column("denied", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("asked_at", sa.String(length=32), nullable=False),
        sa.Column("expires_at", sa.String(length=32), nullable=False),
        sa.Column("decided_at", sa.String(length=32), nullable=True),
        sa.Column("decided_by", sa.String(length=255), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    for column in ("action", "run_id", "status"):
        op.create_index(f"ix_approvals_{column}", "approvals", [column])
    if op.get_bind().dialect.name == "sqlite":
        _guard_sqlite()
    else:
        _guard_postgres()


def _create_entities() -> None:
    op.create_table(
        "entities",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("line", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "entity_edges",
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("target", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("source", "kind", "target"),
    )
    op.create_index("entity_edges_back", "entity_edges", ["target", "kind", "source"])
    op.create_table(
        "entity_vectors",
        sa.Column("entity", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("dimensions", sa.Integer(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("entity", "model"),
    )


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("replica", sa.String(length=64), nullable=False),
        sa.Column("counter", sa.Integer(), nullable=False),
        sa.Column("line", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_run_id", "events", ["run_id"])
    op.create_table(
        "event_entities",
        sa.Column("event", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=8), nullable=False),
        sa.Column("place", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("entity", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("event", "role", "place"),
    )
    op.create_index("event_entities_by_entity", "event_entities", ["entity", "role", "event"])
    op.create_table(
        "event_heads",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def _guard_sqlite() -> None:
    for table, key in APPEND_ONLY.items():
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
        # INSERT OR REPLACE removes the old row without asking the trigger above.
        joint = " OR " if table == "events" else " AND "
        same = joint.join(f"{column} = NEW.{column}" for column in key)
        there = f"EXISTS (SELECT 1 FROM {table} WHERE {same})"  # noqa: S608 - names of ours
        op.execute(
            f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} "
            f"WHEN {there} BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )


def _guard_postgres() -> None:
    op.execute(
        "CREATE FUNCTION harness_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION harness_append_only()"
        )


def downgrade() -> None:
    for table in (
        "approvals",
        "event_heads",
        "event_entities",
        "events",
        "entity_vectors",
        "entity_edges",
        "entities",
        "plans",
        "prompts",
    ):
        op.drop_table(table)
    if op.get_bind().dialect.name != "sqlite":
        op.execute("DROP FUNCTION harness_append_only()")
