"""When an approval was used: a run that goes on from before that moment may use it again."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("approvals", sa.Column("used_at", sa.String(length=32), nullable=True))


def downgrade() -> None:
    op.drop_column("approvals", "used_at")
