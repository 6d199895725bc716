"""`verify` finds every edit by somebody with write access to the database."""

import json

import pytest
from sqlalchemy import Connection, text

from policy.log.event_log import EventLog, add_events, rebuild_heads
from policy.log.events import line_digest
from policy.log.verify import CausalityCheck, VerifyResult, verify
from tests.support.policy import OpenLog, cut, disarm, draft, line_of, three_events

EDITS = [
    "UPDATE events SET line = replace(line, 'node', 'nods')",
    "UPDATE events SET line = '' WHERE number = 1",
    "UPDATE events SET line = substr(line, 1, 40) WHERE number = 2",
    "UPDATE events SET line = '[]' WHERE number = 2",
    "UPDATE events SET run_id = 'run9' WHERE number = 1",
    "UPDATE events SET kind = 'report' WHERE number = 1",
    "UPDATE events SET replica = 'other' WHERE number = 1",
    "UPDATE events SET counter = 7 WHERE number = 1",
    "UPDATE events SET id = 'x' || substr(id, 2) WHERE number = 3",
    "UPDATE entities SET line = replace(line, 'repo:x', 'repo:y')",
    "UPDATE entities SET line = replace(line, '\"repo:x\"', '')",
    "DELETE FROM entities",
    "DELETE FROM event_heads",
    "UPDATE event_heads SET id = (SELECT id FROM events WHERE number = 1)",
    "DELETE FROM events WHERE number = 1",
    "DELETE FROM events WHERE number = 2",
    "DELETE FROM events WHERE number = 3",
    "DELETE FROM events",
    "INSERT INTO events (id, run_id, kind, replica, counter, line) "
    "SELECT 'x', run_id, kind, replica, counter, line FROM events WHERE number = 1",
]


@pytest.mark.parametrize("edit", EDITS)
def test_every_edit_is_found(log: EventLog, edit: str) -> None:
    three_events(log)
    with log.engine.begin() as connection:
        disarm(connection)
        assert connection.execute(text(edit)).rowcount > 0
    # Without triggers there are findings anyway: those that only they bring must not be all.
    assert about_content(verify(log))


def test_a_change_of_any_byte_is_found(open_log: OpenLog) -> None:
    log = open_log()
    three_events(log)
    events = log.events()
    for event in events:
        for place in range(len(event.line)):
            changed = event.line[:place] + chr(ord(event.line[place]) ^ 1) + event.line[place + 1 :]
            causes = CausalityCheck()
            causes.check_event(event.id, changed)
            assert any("edited" in finding.problem for finding in causes.problems())


def test_an_edit_with_a_new_hash_breaks_the_events_after_it(log: EventLog) -> None:
    three_events(log)
    forge(log, 2, {"body": {"said": "something else"}})
    found = about_content(verify(log))
    assert any("which is missing" in what for what in found)


def test_the_head_file_reveals_an_edit_of_the_newest_event(log: EventLog) -> None:
    three_events(log)
    forge(log, 3, {"body": {"said": "something else"}})
    assert about_content(verify(log)) == [
        "a recorded head is not in the log (truncated, or restored from a backup?)"
    ]


def test_the_head_file_reveals_a_truncation_of_all_tables(log: EventLog) -> None:
    three_events(log)
    cut(log, 3)
    assert about_content(verify(log)) == [
        "a recorded head is not in the log (truncated, or restored from a backup?)"
    ]


def test_an_emptied_log_is_found(log: EventLog) -> None:
    three_events(log)
    for number in (3, 2, 1):
        cut(log, number)
    assert any("truncated" in what for what in about_content(verify(log)))


def test_a_missing_or_damaged_head_file_is_reported(log: EventLog) -> None:
    three_events(log)
    log.head_file.path.write_text('{"heads":')
    assert any("is not the head" in what for what in about_content(verify(log)))
    log.head_file.path.unlink()
    assert any("is missing" in what for what in about_content(verify(log)))
    log.accept_heads()
    assert verify(log).ok


def test_a_head_noted_elsewhere_is_checked(log: EventLog) -> None:
    three_events(log)
    newest = log.head().heads
    assert verify(log, heads=newest).ok
    cut(log, 3)
    log.accept_heads()
    assert not about_content(verify(log))
    assert about_content(verify(log, heads=newest))


def test_dropped_triggers_are_reported(open_log: OpenLog) -> None:
    log = open_log()
    three_events(log)
    with log.engine.begin() as connection:
        connection.execute(text("DROP TRIGGER events_no_replace"))
    assert [str(finding) for finding in verify(log).findings] == [
        "events: the trigger events_no_replace is missing, so rows can be edited"
    ]


@pytest.mark.parametrize("forged_clock", [{}, {"mine": 2}, {"mine": 4}, {"mine": 3, "other": 1},
    {"other": 3}, {"mine": -1}, {"mine": 0}])  # fmt: skip
def test_a_clock_that_does_not_follow_from_the_causes_is_found(
    open_log: OpenLog, forged_clock: dict[str, int]
) -> None:
    log = open_log()
    three_events(log)
    forge(log, 3, {"clock": forged_clock})
    log.accept_heads()
    assert any("clock" in what for what in about_content(verify(log)))


@pytest.mark.parametrize("change", [{"heads": "x"}, {"heads": [1]}, {"clock": []}, {"body": 1},
    {"clock": {"mine": "3"}}, {"clock": {"mine": 3.0}}, {"kind": None}, {"more": 1},
    {"consumes": None}])  # fmt: skip
def test_an_incomplete_event_with_a_correct_hash_is_found(
    open_log: OpenLog, change: dict[str, object]
) -> None:
    log = open_log()
    three_events(log)
    forge(log, 3, change)
    assert any("not a complete event" in what for what in about_content(verify(log)))


def test_two_machines_with_one_name_are_found(open_log: OpenLog) -> None:
    one, two = open_log("one"), open_log("two")
    twin = EventLog(engine=two.engine, replica="one", head_file=two.head_file, now=two.now)
    one.append([draft()])
    with one.engine.begin() as connection:
        add_events(connection, twin.append([draft(kind="report")]))
        rebuild_heads(connection)
    one.accept_heads()
    assert any("have the same name" in what for what in about_content(verify(one)))


def about_content(found: VerifyResult) -> list[str]:
    """Return the findings, except those about triggers that the test dropped itself."""
    return [finding.problem for finding in found.findings if "the trigger" not in finding.problem]


def forge(log: EventLog, number: int, change: dict[str, object]) -> None:
    """Rewrite an event like an attacker who computes new ids, here and in all references."""
    with log.engine.begin() as connection:
        disarm(connection)
        line = line_of(connection, number)
        forged = json.dumps({**json.loads(line), **change}, sort_keys=True, separators=(",", ":"))
        _rename(connection, line_digest(line), line_digest(forged))
        clock = change.get("clock")
        counter = clock.get("mine", 0) if isinstance(clock, dict) else number
        connection.execute(
            text("UPDATE events SET line = :line, counter = :counter WHERE number = :number"),
            {"line": forged, "counter": int(counter), "number": number},
        )


def _rename(connection: Connection, old: str, new: str) -> None:
    for table, column in (("events", "id"), ("event_heads", "id")):
        connection.execute(
            text(f"UPDATE {table} SET {column} = :new WHERE {column} = :old"),  # noqa: S608
            {"new": new, "old": old},
        )
