"""Keep several vectors of a playbook, one for each passage, and the distance limit of a model."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    _create("passage_vectors", sa.Column("id", sa.Integer(), primary_key=True, autoincrement=True))
    op.execute(
        "INSERT INTO passage_vectors (playbook_key, model, dimensions, digest, vector) "
        "SELECT playbook_key, model, dimensions, '', vector FROM vectors"
    )
    op.drop_table("vectors")
    op.create_index("passages_by_playbook", "passage_vectors", ["playbook_key"])
    op.create_index("passages_by_model", "passage_vectors", ["model", "dimensions"])
    op.create_table(
        "embedding_models",
        sa.Column("model", sa.String(length=255), primary_key=True),
        sa.Column("max_distance", sa.Float(), nullable=False),
    )


def downgrade() -> None:
    _create("vectors", sa.PrimaryKeyConstraint("playbook_key"))
    op.execute(
        "INSERT INTO vectors (playbook_key, model, dimensions, digest, vector) "
        "SELECT playbook_key, model, dimensions, '', vector FROM passage_vectors "
        "WHERE id IN (SELECT MIN(id) FROM passage_vectors GROUP BY playbook_key)"
    )
    op.drop_table("passage_vectors")
    op.drop_table("embedding_models")
    op.create_index("vectors_by_model", "vectors", ["model", "dimensions"])


def _create(name: str, key: "sa.schema.SchemaItem") -> None:
    owner = sa.ForeignKey("playbooks.key", ondelete="CASCADE")
    op.create_table(
        name,
        key,
        sa.Column("playbook_key", sa.Integer(), owner, nullable=False),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("dimensions", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=32), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sqlite_autoincrement=name == "passage_vectors",
    )
