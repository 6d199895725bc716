"""Runs migrations on the connection that `memory.database` hands over."""

from alembic import context
from sqlalchemy import Connection

connection = context.config.attributes["connection"]
if not isinstance(connection, Connection):
    raise TypeError(f"migrations want an open connection, got {connection!r}")
context.configure(
    connection=connection,
    target_metadata=context.config.attributes.get("metadata"),
    render_as_batch=connection.dialect.name == "sqlite",
)
with context.begin_transaction():
    context.run_migrations()
