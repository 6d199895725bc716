"""A database of an earlier version is brought up to date when it is opened."""

from datetime import UTC, datetime
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, inspect, text

import migrations
from memory.database import open_database, read_transaction, write_transaction
from memory.playbooks.write import insert_playbook
from memory.types import PlaybookContent
from memory.vectors.embeddings import TextToEmbed, load_vectors, put_passage, texts_to_embed

ENTITY = "a" * 64
AT = datetime(2026, 1, 1, tzinfo=UTC)


def downgrade(engine: Engine, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    with engine.connect().execution_options(writes=True) as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)
        connection.commit()


def test_a_store_that_has_vectors_of_entities_loses_them_and_keeps_the_entities(
    no_tables: str | Path,
) -> None:
    engine = open_database(no_tables)
    downgrade(engine, "0008")
    with write_transaction(engine) as connection:
        values = {"id": ENTITY}
        connection.execute(text("INSERT INTO entities VALUES (:id, 'prompt', '{}')"), values)
        connection.execute(text("INSERT INTO entity_vectors VALUES (:id, 'm', 1, '0000')"), values)
    engine.dispose()
    engine = open_database(no_tables)
    assert not inspect(engine).has_table("entity_vectors")
    with read_transaction(engine) as connection:
        assert connection.execute(text("SELECT id FROM entities")).scalar_one() == ENTITY
    engine.dispose()


def test_a_store_with_one_vector_for_each_playbook_keeps_it(no_tables: str | Path) -> None:
    engine = open_database(no_tables)
    with write_transaction(engine) as connection:
        made = insert_playbook(
            connection, PlaybookContent(title="rotate keys"), source="person", at=AT
        )
        put_passage(connection, TextToEmbed(made.key, "rotate keys"), "m", [1.0, 0.5])
    downgrade(engine, "0010")
    engine.dispose()
    engine = open_database(no_tables)
    with read_transaction(engine) as connection:
        ((_, vector),) = load_vectors(connection, "m", [made.key])[made.key]
        assert vector == [1.0, 0.5]
        assert texts_to_embed(connection, [made.key]) == []
    engine.dispose()
