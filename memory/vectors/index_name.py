"""Whose vectors an index holds."""

from hashlib import sha256
from pathlib import Path

from sqlalchemy import Engine, select

from memory.database import read_transaction
from memory.tables import store_ids


def index_name(engine: Engine, model: str, *, served: bool) -> str:
    """What the index of this store's vectors is called.

    A folder is copied with its store. A served index is not, so that there each copy has its own.
    """
    with read_transaction(engine) as connection:
        of = connection.execute(select(store_ids.c.id)).scalar_one()
    url = engine.url
    file = Path(url.database or "").resolve()
    host = url.host or url.query.get("host")  # of a Postgres behind a socket
    on_server = engine.dialect.name != "sqlite"
    place = f"{host}:{url.port}/{url.database}" if on_server else str(file)
    return sha256(f"{of}|{place if served else ''}|{model}".encode()).hexdigest()[:24]
