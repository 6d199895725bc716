"""Which events came from another log: no plan is run by what those say."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table("merged_events", sa.Column("id", sa.String(length=64), primary_key=True))


def downgrade() -> None:
    op.drop_table("merged_events")
