"""The event log: append-only, ordered, complete after crashes."""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from memory.database import open_database
from policy.errors import EventsInvalid, LogDamaged, LogUnavailable
from policy.log.event_log import EventLog
from policy.log.events import Draft, Event, EventLine
from policy.log.head import HeadFile
from policy.log.verify import verify
from tests.support.policy import Clock, OpenLog, disarm, draft, entity, three_events

APPENDER = """
import sys
from pathlib import Path
from contracts.entity import Entity, Label
from memory.database import open_database
from policy.log.events import Draft
from policy.log.head import HeadFile
from policy.log.event_log import EventLog

folder, number = Path(sys.argv[1]), int(sys.argv[2])
engine, head_file = open_database(folder / "mine.db"), HeadFile(folder / "mine.head")
log = EventLog(engine=engine, replica="mine", head_file=head_file)
for n in range(number):
    made = Entity(content=[sys.argv[3], n], label=Label(), origin="process")
    log.append([Draft(kind="node", run_id=sys.argv[3], produces=(made,))])
    print(n, flush=True)
"""


def test_appended_events_are_read_back_unchanged(log: EventLog) -> None:
    three_events(log)
    events = log.events()
    assert [event.kind for event in events] == ["prompt", "source", "node"]
    assert events[2].consumes == (*events[0].produces, *events[1].produces)
    assert [event.heads for event in events] == [(), (events[0].id,), (events[1].id,)]
    assert [event.clock for event in events] == [{"mine": 1}, {"mine": 2}, {"mine": 3}]
    made = log.entities(events[2].produces)[events[2].produces[0]]
    assert made == entity("done", "repo:x")
    assert verify(log).ok


def test_events_are_filtered_by_run_kind_and_limit(log: EventLog) -> None:
    log.append([draft(entity(n), run_id=f"run{n % 2}") for n in range(4)])
    log.append([draft(kind="report", run_id="run1")])
    assert len(log.events("run1")) == 3
    assert [event.kind for event in log.events(kind="report")] == ["report"]
    assert [event.counter for event in log.events(limit=2)] == [4, 5]
    assert log.events("run9") == ()
    assert [number for number, _ in log.events_after(3)] == [4, 5]


def test_the_id_of_an_event_depends_on_its_content(log: EventLog) -> None:
    event = log.append([draft(entity("x"))])[0]
    assert EventLine.model_validate_json(event.line).event() == event
    assert EventLine.model_validate_json(event.line).event().id == event.id
    assert (
        EventLine.model_validate_json(event.line.replace('"node"', '"step"')).event().id != event.id
    )


def test_an_event_needs_a_time_zone() -> None:
    from datetime import datetime

    with pytest.raises(ValueError, match="time zone"):
        Event(kind="node", run_id="r", replica="m", at=datetime(2026, 1, 1), body={}, clock={})


def test_equal_entities_are_stored_once(log: EventLog) -> None:
    log.append([draft(entity("same")), draft(entity("same"))])
    found = verify(log)
    assert (found.events, found.entities, found.ok) == (2, 1, True)


def test_an_append_stores_all_events_or_none(log: EventLog) -> None:
    three_events(log)
    bad = Draft(kind="node", run_id="run1", body={"said": "\ud800"})
    with pytest.raises(EventsInvalid, match="Unicode"):
        log.append([draft(entity("good")), bad])
    assert len(log.events()) == 3
    assert verify(log).ok


def test_an_empty_append_changes_nothing(log: EventLog) -> None:
    assert log.append([]) == ()
    assert verify(log) == verify(log)


def test_a_clock_that_goes_back_does_not_change_the_order(log: EventLog, clock: Clock) -> None:
    log.append([draft(entity(1))])
    clock.now -= timedelta(days=400)
    log.append([draft(entity(2))])
    found = verify(log)
    assert found.ok
    assert len(found.notes) == 1
    assert [event.counter for event in log.events()] == [1, 2]


@pytest.mark.parametrize("verb", ["UPDATE events SET run_id = 'x'", "DELETE FROM events",
    "UPDATE entities SET line = ''", "DELETE FROM entities"])  # fmt: skip
def test_the_database_refuses_changes(log: EventLog, verb: str) -> None:
    three_events(log)
    with pytest.raises(Exception, match="append-only"), log.engine.begin() as connection:
        connection.execute(text(verb))
    assert verify(log).ok


@pytest.mark.parametrize("recursive", ["ON", "OFF"])
@pytest.mark.parametrize("columns", ["*", "number + 9, id, run_id, kind, replica, counter, 'x'",
    "number, 'x' || id, run_id, kind, replica, counter, line"])  # fmt: skip
def test_replacing_a_row_is_refused(open_log: OpenLog, recursive: str, columns: str) -> None:
    log = open_log()
    three_events(log)
    with pytest.raises(IntegrityError, match="append-only"), log.engine.begin() as connection:
        connection.exec_driver_sql(f"PRAGMA recursive_triggers = {recursive}")
        connection.exec_driver_sql(f"INSERT OR REPLACE INTO events SELECT {columns} FROM events")  # noqa: S608
    assert verify(log).ok


def test_an_append_to_a_truncated_log_is_refused(log: EventLog) -> None:
    three_events(log)
    with log.engine.begin() as connection:
        disarm(connection)
        connection.execute(text("DELETE FROM events WHERE number = 3"))
        connection.execute(text("DELETE FROM event_heads"))
    with pytest.raises(LogDamaged, match="lacks 1 of its newest"):
        log.append([draft()])
    log.accept_heads()
    log.append([draft()])


def test_an_append_to_a_log_without_heads_is_refused(log: EventLog) -> None:
    three_events(log)
    with log.engine.begin() as connection:
        disarm(connection)
        connection.execute(text("DELETE FROM event_heads"))
    with pytest.raises(LogDamaged, match="older than the last known state"):
        log.append([draft()])
    log.accept_heads()
    assert log.append([draft()])[0].counter == 4


def test_a_missing_database_is_an_outage(open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log()
    three_events(log)
    log.engine.dispose()
    for path in tmp_path.glob("mine.db*"):
        path.unlink()
    (tmp_path / "mine.db").mkdir()
    with pytest.raises(LogUnavailable, match="unable to open"):
        log.append([draft()])


def test_processes_append_in_parallel(open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log()
    argv = [sys.executable, "-c", APPENDER, str(tmp_path), "40"]
    running = [subprocess.Popen([*argv, name], stdout=subprocess.DEVNULL) for name in "abc"]
    assert [process.wait() for process in running] == [0, 0, 0]
    found = verify(log)
    assert (found.events, found.ok, len(found.heads)) == (120, True, 1)


def test_a_killed_process_leaves_no_partial_event(open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log()
    for kill_after in (1, 7, 23):
        argv = [sys.executable, "-c", APPENDER, str(tmp_path), "1000", str(kill_after)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(kill_after):
                process.stdout.readline()
            os.kill(process.pid, signal.SIGKILL)
        found = verify(log)
        assert found.ok, found.findings
    log.append([draft()])


def test_a_head_file_that_cannot_be_written_is_an_outage(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "file").write_text("")
    engine = open_database(tmp_path / "harness.db")
    log = EventLog(engine=engine, replica="mine", head_file=HeadFile(tmp_path / "file" / "head"))
    with pytest.raises(LogUnavailable, match="cannot write"):
        log.append([draft()])
    assert log.events() == ()
    engine.dispose()


def test_reading_an_incomplete_event_raises_log_damaged(open_log: OpenLog) -> None:
    log = open_log()
    three_events(log)
    with log.engine.begin() as connection:
        disarm(connection)
        connection.execute(text("UPDATE events SET line = '{}' WHERE number = 2"))
    with pytest.raises(LogDamaged, match="damaged line"):
        log.events()
