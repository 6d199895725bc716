"""Keep with a note or an example the quote from the run that it was concluded from."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    evidence: sa.Column[str] = sa.Column("evidence", sa.Text(), nullable=False, server_default="")
    op.add_column("entries", evidence)


def downgrade() -> None:
    op.drop_column("entries", "evidence")
