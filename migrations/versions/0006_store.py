"""What an index needs to know whose it is and what it lacks: the store's id, numbered changes."""

from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    store = op.create_table("store", sa.Column("id", sa.String(length=36), primary_key=True))
    op.bulk_insert(store, [{"id": str(uuid4())}])
    op.create_table(
        "last_changes",
        sa.Column("playbook_key", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer(), nullable=False, unique=True),
    )
    op.create_index("vectors_by_model", "vectors", ["model", "dimensions"])
    op.execute("INSERT INTO outdated (playbook_key) SELECT key FROM playbooks")


def downgrade() -> None:
    op.drop_index("vectors_by_model", "vectors")
    op.drop_table("last_changes")
    op.drop_table("store")
