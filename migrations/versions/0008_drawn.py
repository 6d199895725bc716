"""By what share a run was drawn, how often it wrote, and that what a person said failed is told."""

import sqlalchemy as sa
from alembic import op

_REFLECTION: sa.Column[object] = sa.Column("reflection", sa.JSON())

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("recalls", sa.Column("share", sa.Float(), nullable=True))
    op.create_table(
        "run_writes",
        sa.Column("run_id", sa.String(length=64), primary_key=True),
        sa.Column("created", sa.Integer(), nullable=False),
        sa.Column("writes", sa.Integer(), nullable=False),
    )
    executions = sa.table("executions", sa.column("id"), sa.column("agent"), _REFLECTION)
    mine = sa.select(executions.c.id, _REFLECTION).where(executions.c.agent == "person")
    for id_, said in op.get_bind().execute(mine).all():
        if said is not None:
            told = sa.update(executions).where(executions.c.id == id_)
            op.execute(told.values(reflection={**said, "told": said["what_failed"]}))


def downgrade() -> None:
    op.drop_table("run_writes")
    op.drop_column("recalls", "share")
