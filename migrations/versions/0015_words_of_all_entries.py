"""Index the words of notes and examples beside those of playbooks."""

import sqlalchemy as sa
from alembic import op

from memory.indexing import word_impacts

revision = "0015"
down_revision = "0014"

BATCH = 1_000


def upgrade() -> None:
    op.drop_index("words_by_playbook", "words")
    op.drop_index("words_by_impact", "words")
    op.alter_column("words", "playbook_key", new_column_name="entry_key")
    op.create_index("words_by_entry", "words", ["entry_key"])
    op.create_index("words_by_impact", "words", ["word", "impact", "entry_key"])
    bind = op.get_bind()
    query = "SELECT key, text FROM entries WHERE kind <> 'playbook' AND status <> 'Revoked'"
    stored = bind.execute(sa.text(query)).all()
    for start in range(0, len(stored), BATCH):
        rows = [
            {"word": word, "key": key, "impact": impact}
            for key, text in stored[start : start + BATCH]
            for word, impact in word_impacts(text).items()
        ]
        if rows:
            bind.execute(sa.text("INSERT INTO words VALUES (:word, :key, :impact)"), rows)


def downgrade() -> None:
    raise NotImplementedError("an older Harness cannot read these words: restore a backup")
