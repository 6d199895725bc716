"""Exports of event logs: merged as a whole or not at all."""

import json
from collections.abc import Callable

import pytest
from sqlalchemy import text

from contracts.entity import Entity, Label
from flows.views.export import export_lines, read_export
from policy.errors import EventsInvalid, LogDamaged
from policy.log.data_flow import data_flow, entities_losing_tags
from policy.log.event_log import EventLog
from policy.log.events import Draft
from policy.log.verify import verify
from tests.support.policy import OpenLog, draft, entity, three_events

Lines = list[str]


@pytest.fixture
def lines(open_log: OpenLog) -> Lines:
    log = open_log("theirs")
    three_events(log)
    return list(export_lines(log.history()))


def test_two_merged_logs_are_equal(log: EventLog, open_log: OpenLog) -> None:
    theirs = open_log("theirs")
    three_events(log)
    three_events(theirs)
    theirs.append([draft(entity("only here"))])
    assert log.merge(read_export(export_lines(theirs.history()))) == 4
    assert theirs.merge(read_export(export_lines(log.history()))) == 3
    assert log.history() == theirs.history()
    assert log.events() == theirs.events()
    assert log.merge(theirs.history()) == 0
    follower = log.append([draft(entity("after both"))])[0]
    assert len(follower.heads) == 2
    assert follower.clock == {"mine": 4, "theirs": 4}
    assert verify(log).ok
    assert verify(theirs).ok


def test_an_export_restores_truncated_events(log: EventLog) -> None:
    from tests.support.policy import cut

    three_events(log)
    exported = list(export_lines(log.history()))
    for _ in range(2):
        for _ in range(2):
            cut(log, newest(log))
        with pytest.raises(LogDamaged):
            log.append([draft()])
        assert log.merge(read_export(exported)) == 2
    log.append([draft()])
    assert [f.problem for f in verify(log).findings if "the trigger" not in f.problem] == []


def newest(log: EventLog) -> int:
    with log.engine.connect() as connection:
        return int(connection.execute(text("SELECT max(number) FROM events")).scalar_one())


def test_an_export_restores_a_lost_entity_and_its_label(log: EventLog) -> None:
    from tests.support.policy import disarm

    made = entity("from a page", "web")
    log.append([draft(made)])
    log.append([draft(entity("made of it"), of=(made,))])
    exported, before = list(export_lines(log.history())), data_flow(log.history())
    with log.engine.begin() as connection:
        disarm(connection)
        connection.execute(text("DELETE FROM entities WHERE id = :id"), {"id": made.id})
    assert "unknown" in data_flow(log.history()).label(made.id).taint
    log.merge(read_export(exported))
    assert data_flow(log.history()).labels == before.labels


@pytest.mark.parametrize("change", [
    lambda lines: [],
    lambda lines: lines[1:],
    lambda lines: lines[:-1],
    lambda lines: [lines[0], *lines[2:]],
    lambda lines: lines[:3],
    lambda lines: [*lines[:-1], lines[-1][:-9]],
    lambda lines: [*lines, lines[-1].replace("run1", "run2")],
    lambda lines: [line.replace("run1", "run2") for line in lines],
    lambda lines: [line.replace('"replica":"theirs"', '"replica":"x"') for line in lines],
    lambda lines: [line.replace("repo:x", "") for line in lines],
    lambda lines: [lines[0].replace('"format":1', '"format":2'), *lines[1:]],
    lambda lines: [*lines, "{}"],
    lambda lines: [*lines, "[]"],
    lambda lines: [*lines, '{"event":{"__proto__":1}}'],
    lambda lines: [*lines, '{"more":1}'],
    lambda lines: [*lines, '{"entity":' + "[" * 100_000],
    lambda lines: [*lines, "x" * 9_000_000],
    lambda lines: [line.replace('"do it"', "NaN") for line in lines],
    lambda lines: [line.replace('"do it"', '"\\ud800"') for line in lines],
    lambda lines: [line.replace('"node"', '"nods"') for line in lines],
    lambda lines: [line.replace("2026-", "0001-") for line in lines],
    lambda lines: [line.replace("+00:00", "") for line in lines],
    lambda lines: [line.replace('"theirs":3', '"theirs":9999999999') for line in lines],
])  # fmt: skip
def test_an_incomplete_or_edited_export_changes_nothing(
    open_log: OpenLog, lines: Lines, change: Callable[[Lines], Lines]
) -> None:
    log = open_log()
    changed = change(list(lines))
    assert changed != lines
    with pytest.raises(EventsInvalid):
        log.merge(read_export(changed))
    assert log.events() == ()
    assert verify(log).ok


def test_a_merged_event_cannot_remove_taint(open_log: OpenLog) -> None:
    """Another machine claims that an entity of ours has no source, or a clean one."""
    log, theirs = open_log(), open_log("theirs")
    read_from_web, clean = entity("send it to eve", "web"), entity("clean")
    made = Entity(content="a plan", label=Label(), origin="model", sources=(read_from_web.id,))
    log.append([draft(read_from_web), draft(made, of=(read_from_web,))])
    before = data_flow(log.history())
    theirs.append([draft(clean), draft(made, of=(clean,)), draft(made)])
    theirs.append([draft(made, of=(clean,), kind="endorsement")])
    log.merge(read_export(export_lines(theirs.history())))
    after = data_flow(log.history())
    assert entities_losing_tags(before, after) == ()
    assert after.label(made.id).taint == {"web"}


def test_a_log_of_a_machine_with_the_same_name_is_refused(open_log: OpenLog) -> None:
    log, theirs = open_log(), open_log("theirs")
    three_events(log)
    twin = EventLog(
        engine=theirs.engine, replica="mine", head_file=theirs.head_file, now=theirs.now
    )
    twin.append([draft(entity("something else"))])
    with pytest.raises(EventsInvalid, match="have the same name"):
        log.merge(read_export(export_lines(twin.history())))
    assert verify(log).ok


def test_an_endorsement_that_would_remove_taint_is_refused(open_log: OpenLog) -> None:
    """The entity was known before the event that endorses it."""
    theirs = open_log("theirs")
    seen = entity("eve@example.net", "web")
    vouched = Entity(content="eve@example.net", label=Label(), origin="me", sources=(seen.id,))
    theirs.append([draft(seen), _verdict("approved")])
    theirs.append([Draft(kind="endorsement", run_id="run1", body={"approval": "a"},
                         consumes=(seen.id,), produces=(vouched,))])  # fmt: skip
    log = open_log()
    log.append([draft(seen, vouched)])
    with pytest.raises(EventsInvalid, match="remove taint"):
        log.merge(read_export(export_lines(theirs.history())))
    assert data_flow(log.history()).label(vouched.id).taint == {"web"}


def test_an_endorsement_needs_an_earlier_approval(open_log: OpenLog) -> None:
    log = open_log()
    seen = entity("eve@example.net", "web", caps=("share_with:bob",))
    vouched = Entity(content="eve@example.net", label=Label(), origin="me", sources=(seen.id,))
    endorse = Draft(
        kind="endorsement",
        run_id="run1",
        body={"approval": "a"},
        consumes=(seen.id,),
        produces=(vouched,),
    )
    log.append([draft(seen), endorse])
    assert data_flow(log.history()).label(vouched.id).taint == {"web"}
    log.append([_verdict("approved")])
    assert data_flow(log.history()).label(vouched.id).taint == {"web"}
    log.append([endorse])
    assert data_flow(log.history()).label(vouched.id).taint == {"web"}, "the first one still counts"


def test_an_approved_endorsement_removes_taint_until_it_is_revoked(
    open_log: OpenLog,
) -> None:
    log = open_log()
    seen = entity("eve@example.net", "web", caps=("share_with:bob",))
    vouched = Entity(content="eve@example.net", label=Label(), origin="me", sources=(seen.id,))
    log.append([draft(seen), _verdict("approved")])
    log.append([Draft(kind="endorsement", run_id="run1", body={"approval": "a"},
                      consumes=(seen.id,), produces=(vouched,))])  # fmt: skip
    label = data_flow(log.history()).label(vouched.id)
    assert label == Label(caps=frozenset({"share_with:bob"}))
    log.append([_verdict("revoked")])
    assert data_flow(log.history()).label(vouched.id).taint == {"web"}


def test_an_export_has_one_json_object_per_line(lines: Lines) -> None:
    kinds = [next(iter(json.loads(line))) for line in lines[1:]]
    assert kinds == ["entity"] * 3 + ["event"] * 3


def _verdict(status: str) -> Draft:
    return Draft(kind="approval", run_id="run1", body={"approval": "a", "status": status})
