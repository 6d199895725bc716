"""Approvals of what an agent asked for: which node, which agent."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    for name, length in (("node", 255), ("agent", 64)):
        column = sa.Column(name, sa.String(length=length), nullable=False, server_default="")
        op.add_column("approvals", column)


def downgrade() -> None:
    for name in ("agent", "node"):
        op.drop_column("approvals", name)
