"""Drop the tables of links between events and entities, which the events themselves state."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    # Dropping a table also drops its append-only triggers.
    for table in ("event_entities", "entity_edges", "prompts", "plans"):
        op.drop_table(table)


def downgrade() -> None:
    op.create_table(
        "prompts",
        sa.Column("id", sa.String(length=64), primary_key=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
    )
    op.create_table(
        "plans",
        sa.Column("id", sa.String(length=64), primary_key=True),
        sa.Column("prompt", sa.String(length=64), nullable=False),
        sa.Column("steps", sa.JSON(), nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
    )
    op.create_table(
        "entity_edges",
        sa.Column("source", sa.String(length=64), primary_key=True),
        sa.Column("kind", sa.String(length=16), primary_key=True),
        sa.Column("target", sa.String(length=64), primary_key=True),
    )
    op.create_table(
        "event_entities",
        sa.Column("event", sa.String(length=64), primary_key=True),
        sa.Column("role", sa.String(length=8), primary_key=True),
        sa.Column("place", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("entity", sa.String(length=64), nullable=False),
    )
