"""Shared by the tests of policy."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from contracts.entity import Entity, Label
from contracts.json import Json
from contracts.tool import Denied
from memory.database import open_database
from policy.log.event_log import EventLog
from policy.log.events import Draft, EventLine, Kind
from policy.log.head import HeadFile
from policy.types import ApprovalRequest
from tests.support.stores import new_store

OpenLog = Callable[..., EventLog]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_log(tmp_path: Path, clock: Clock) -> Iterator[OpenLog]:
    """Opens the log of a machine by its name, on SQLite or where it is told."""
    with ExitStack() as stack:

        def open_it(replica: str = "mine", where: str | Path | None = None) -> EventLog:
            engine = open_database(where or new_store(tmp_path / f"{replica}.db"))
            stack.callback(engine.dispose)
            head = HeadFile(tmp_path / f"{replica}.head")
            return EventLog(engine=engine, replica=replica, head_file=head, now=clock)

        yield open_it


def entity(content: Json, *taint: str, caps: tuple[str, ...] = (), origin: str = "test") -> Entity:
    label = Label(caps=frozenset(caps), taint=frozenset(taint))
    return Entity(content=content, label=label, origin=origin)


def draft(
    *produces: Entity, of: tuple[Entity, ...] = (), kind: Kind = "node", run_id: str = "run1"
) -> Draft:
    return Draft(
        kind=kind, run_id=run_id, consumes=tuple(e.id for e in of), produces=tuple(produces)
    )


def three_events(log: EventLog) -> None:
    """A prompt, what was read, and what was made of both."""
    asked, read = entity("do it"), entity("some text", "repo:x")
    made = entity("done", "repo:x")
    log.append([draft(asked, kind="prompt"), draft(read, kind="source")])
    log.append([draft(made, of=(asked, read))])


def disarm(connection: Connection) -> None:
    """Take the triggers away, as anybody with the database can."""
    if connection.dialect.name != "sqlite":
        connection.execute(text("SET session_replication_role = replica"))
        return
    names = connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'trigger'"))
    for (name,) in names.all():
        connection.execute(text(f"DROP TRIGGER {name}"))


def line_of(connection: Connection, number: int) -> str:
    query = text("SELECT line FROM events WHERE number = :n")
    return str(connection.execute(query, {"n": number}).scalar_one())


def cut(log: EventLog, number: int) -> None:
    """Take the newest event away, with all its traces in the database."""
    with log.engine.begin() as connection:
        disarm(connection)
        event = EventLine.model_validate_json(line_of(connection, number)).event()
        for statement in ("DELETE FROM events WHERE id = :id",
                          "DELETE FROM event_heads"):  # fmt: skip
            connection.execute(text(statement), {"id": event.id})
        for head in event.heads:
            connection.execute(text("INSERT INTO event_heads VALUES (:id)"), {"id": head})


WHY = Denied(
    reason="repo:notes would decide /to",
    rule="C4",
    argument="/to",
    tags=frozenset({"repo:notes"}),
    provenance=("notes/q2.md", "step0 extract"),
)


MAIL = ApprovalRequest(
    action="a" * 64, run_id="r1", step=1, op="send_email", arguments={"to": "eve"}, denied=WHY
)
