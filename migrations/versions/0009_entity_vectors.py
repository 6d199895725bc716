"""Drop the vectors of entities, which are found by words."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.drop_table("entity_vectors")


def downgrade() -> None:
    op.create_table(
        "entity_vectors",
        sa.Column("entity", sa.String(length=64), nullable=False),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("dimensions", sa.Integer(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("entity", "model"),
    )
