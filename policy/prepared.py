"""Statements that are made once: to make one takes SQLAlchemy longer than SQLite to run it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, CursorResult, Dialect
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import ClauseElement

Row = Mapping[str, object]


@dataclass(frozen=True)
class Prepared:
    """A statement whose parameters are texts and numbers, which no driver needs made over."""

    statement: ClauseElement
    columns: tuple[str, ...] = ()
    """Of an INSERT, those that are given."""
    _made: dict[str, SQLCompiler] = field(default_factory=dict)

    def run(
        self, connection: Connection, rows: Sequence[Row] = ()
    ) -> CursorResult[tuple[str, str]]:
        """Run it, once for each of the rows."""
        made = self._for(connection.dialect)
        order = made.positiontup
        if not rows:
            return connection.exec_driver_sql(made.string)
        given = [
            dict(row) if order is None else tuple([row[name] for name in order]) for row in rows
        ]
        return connection.exec_driver_sql(made.string, given)

    def _for(self, dialect: Dialect) -> SQLCompiler:
        if dialect.name not in self._made:
            compiled = self.statement.compile(
                dialect=dialect, column_keys=list(self.columns) or None
            )
            assert isinstance(compiled, SQLCompiler)  # noqa: S101 - tells the type checker
            self._made[dialect.name] = compiled
        return self._made[dialect.name]
