"""Alembic migrations of the database; `memory.database.open_database` applies them."""
