"""One edited cell of any table of the log is found, and an edited approval permits nothing."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from contracts.json import Json
from policy.database import metadata
from policy.errors import LogDamaged
from policy.log.event_log import EventLog
from policy.log.events import Draft
from policy.log.verify import verify
from policy.plan.approvals import Approvals
from tests.support.policy import MAIL, Clock, OpenLog, disarm, draft, entity, three_events

EDITS = 200


@pytest.fixture
def full(open_log: OpenLog, clock: Clock) -> EventLog:
    """A log with a plan, merged events, and an approval in every state."""
    log, other = open_log(), open_log("other")
    three_events(log)
    plan: Mapping[str, Json] = {"plan": "p", "steps": [{"op": "send_email"}], "agreed": True}
    log.append([Draft(kind="plan", run_id="r1", body=plan)])
    other.append([draft(entity("theirs", "repo:y"), kind="source", run_id="r2")])
    log.merge(other.history())
    store = Approvals(log=log, now=clock)
    for number, status in enumerate(("pending", "approved", "denied", "used", "expired")):
        request = replace(MAIL, action=f"{number}" * 64, node="fix", agent="native")
        asked = replace(store, ttl_s=0.5) if status == "expired" else store
        name = asked.ask(request).approval
        if status in ("approved", "used"):
            store.decide(name, "approved", by="ann", reason="fine")
        if status == "denied":
            store.decide(name, "denied", by="ann")
        if status == "used":
            store.consume(request)
    assert store.expire() == 1
    assert verify(log).ok, verify(log).findings
    return log


def test_every_edit_of_one_cell_is_found(full: EventLog) -> None:
    drawn = random.Random(26)  # noqa: S311 - a repeatable draw, not a secret
    missed = []
    with full.engine.connect() as connection:
        cells = list(_cells(connection))
    assert {table for table, _, _ in cells} == set(metadata.tables)
    for table, row, column in drawn.choices(cells, k=EDITS):
        edited = _edit(full, table, row, column, drawn)
        if edited and verify(full).ok:
            missed.append((table, column, row))
        if edited:
            _set(full, table, column, *edited)
    assert missed == []
    assert verify(full).ok


@pytest.mark.parametrize("column", ["arguments", "denied", "op", "node", "expires_at"])
def test_an_edited_approval_is_not_shown_decided_or_used(
    full: EventLog, clock: Clock, column: str
) -> None:
    store = Approvals(log=full, now=clock)
    (pending,) = store.list(pending=True)
    told = "arguments or denial" if column in ("arguments", "denied") else column
    value = '{"to": "bob"}' if column in ("arguments", "denied") else "9999"
    with full.engine.begin() as connection:
        query = text(f"UPDATE approvals SET {column} = :value")  # noqa: S608 - names of ours
        connection.execute(query, {"value": value})
    refused = f"approval {pending.id} was edited: its {told}"
    with pytest.raises(LogDamaged, match=refused):
        store.get(pending.id)
    with pytest.raises(LogDamaged, match=refused):
        store.decide(pending.id, "approved", by="ann")


def test_an_approval_that_only_the_table_states_permits_nothing(
    log: EventLog, clock: Clock
) -> None:
    store = Approvals(log=log, now=clock)
    store.ask(MAIL)
    with log.engine.begin() as connection:
        connection.execute(text("UPDATE approvals SET status = 'approved', decided_by = 'ann'"))
    with pytest.raises(LogDamaged, match="its status"):
        store.ask(MAIL)
    with pytest.raises(LogDamaged, match="its status"):
        store.consume(MAIL)
    assert [str(one) for one in verify(log).findings if "approval" in one.problem]


def test_long_arguments_are_in_the_event_by_their_digest(log: EventLog, clock: Clock) -> None:
    Approvals(log=log, now=clock).ask(replace(MAIL, arguments={"body": "x" * 30_000}))
    (event,) = log.events(kind="approval")
    assert event.body["denied"] == {**_json(event.body["denied"]), "rule": "C4"}
    assert _json(event.body["arguments"])["characters"] == 30_011


def test_an_event_beyond_the_recorded_head_is_found_and_nothing_is_appended_to_it(
    log: EventLog,
) -> None:
    three_events(log)
    recorded = log.head_file.path.read_bytes()
    log.append([draft(kind="report")])
    log.head_file.path.write_bytes(recorded)
    assert ["beyond the recorded head" in one.problem for one in verify(log).findings] == [True]
    with pytest.raises(LogDamaged, match="beyond its recorded head"):
        log.append([draft(kind="report")])
    log.accept_heads()
    assert verify(log).ok


@pytest.mark.parametrize("committed", [True, False])
def test_a_crash_during_an_append_leaves_a_valid_log(log: EventLog, *, committed: bool) -> None:
    three_events(log)
    before = log.head()
    log.append([draft(kind="report")])
    after = log.head()
    log.head_file.write(before.model_copy(update={"next": after}))
    if not committed:
        _remove_last(log, before.heads[0])
    assert verify(log).ok, verify(log).findings
    log.append([draft(kind="report")])
    assert verify(log).ok


def test_a_trigger_that_was_emptied_is_found(open_log: OpenLog) -> None:
    log = open_log()
    three_events(log)
    with log.engine.begin() as connection:
        connection.execute(text("DROP TRIGGER events_no_update"))
        connection.execute(
            text("CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT 1; END")
        )
    assert [str(one) for one in verify(log).findings] == [
        "events: the trigger events_no_update was changed, so rows can be edited"
    ]


def test_a_guard_of_postgres_that_was_emptied_is_found(log: EventLog) -> None:
    if log.engine.dialect.name == "sqlite":
        pytest.skip(
            "only the guard of Postgres calls a function; the SQLite trigger has a test above"
        )
    with log.engine.begin() as connection:
        connection.execute(
            text(
                "CREATE OR REPLACE FUNCTION harness_append_only() RETURNS trigger "
                "LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
            )
        )
    assert len(verify(log).findings) == 2


def _json(value: Json) -> Mapping[str, Json]:
    assert isinstance(value, Mapping)
    return value


def _cells(connection: Connection) -> Iterator[tuple[str, int, str]]:
    for table in metadata.tables:
        rows = [row[0] for row in connection.execute(text(f"SELECT rowid FROM {table}"))]  # noqa: S608
        for column in metadata.tables[table].columns:
            yield from ((table, row, column.name) for row in rows)


def _edit(
    log: EventLog, table: str, row: int, column: str, drawn: random.Random
) -> tuple[int, object] | None:
    """Change one cell; return its row and its old value, None if the database refuses the value."""
    with log.engine.connect() as connection:
        query = text(f"SELECT {column} FROM {table} WHERE rowid = :row")  # noqa: S608
        old = connection.execute(query, {"row": row}).scalar_one()
    new: object = (
        drawn.randrange(2_000) if isinstance(old, int) else _changed(str(old or ""), drawn)
    )
    if new == old:
        return None
    try:
        _set(log, table, column, row, new)
    except IntegrityError:
        return None
    return (int(str(new)) if column == "number" else row), old


def _changed(old: str, drawn: random.Random) -> str:
    place = drawn.randrange(len(old)) if old else 0
    return f"{old[:place]}{drawn.choice('xyz012')}{old[place + drawn.randrange(2) :]}"


def _set(log: EventLog, table: str, column: str, row: int, value: object) -> None:
    with _without_triggers(log) as connection:
        query = text(f"UPDATE {table} SET {column} = :value WHERE rowid = :row")  # noqa: S608
        connection.execute(query, {"value": value, "row": row})


@contextmanager
def _without_triggers(log: EventLog) -> Iterator[Connection]:
    with log.engine.begin() as connection:
        if log.engine.dialect.name != "sqlite":
            disarm(connection)
            yield connection
            connection.execute(text("SET session_replication_role = DEFAULT"))
            return
        query = text("SELECT sql FROM sqlite_master WHERE type = 'trigger'")
        triggers = list(connection.scalars(query))
        disarm(connection)
        yield connection
        for statement in triggers:
            connection.execute(text(statement))


def _remove_last(log: EventLog, head: str) -> None:
    with _without_triggers(log) as connection:
        connection.execute(text("DELETE FROM events WHERE counter = 4"))
        connection.execute(text("DELETE FROM event_heads"))
        connection.execute(text("INSERT INTO event_heads VALUES (:id)"), {"id": head})
