"""A store as JSON lines: out of one, into another, as often as one likes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, delete, insert, update

from memory import journal, store
from memory.content import content_json, content_of
from memory.database import reading, writing
from memory.lessons import restore_lessons
from memory.library import Library
from memory.portable_lines import (
    ExecutionLine,
    PlaybookLine,
    execution_line,
    playbook_line,
    read_line,
)
from memory.store import Identity
from memory.tables import playbooks, versions
from memory.types import Execution, Filter, Playbook


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import did, as slugs. `kept` differ and are as new or newer here.

    `executions` are those that were not known here, or had no verdict, as ids.
    """

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    executions: tuple[str, ...] = ()


def export(library: Library) -> Iterator[str]:
    """One line a playbook, archived ones too, with its history; then one line an execution."""
    with reading(library.engine) as connection:
        everything = store.list_all(connection, Filter(archived=True))
        for playbook in sorted(everything, key=lambda p: p.id):
            yield playbook_line(playbook, store.history(connection, playbook.key))
        for execution in reversed(journal.list_executions(connection)):
            yield execution_line(execution)


def import_(library: Library, lines: Iterable[str]) -> Imported:
    """Take a store in, all or nothing; the same file twice changes nothing.

    A playbook that is here, by its id, is replaced only by a higher version of it, and stays
    archived if it is. Executions of it that are not known here are added to its counts, and those
    that wait here are settled. Of lines about the same playbook the one with the highest version
    and counts goes first.

    Raises:
        PlaybookInvalid: a line that was never exported, with its number.
    """
    read = [read_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    playbooks_ = [line for line in read if isinstance(line, PlaybookLine)]
    executions = [line.execution for line in read if isinstance(line, ExecutionLine)]
    done: dict[str, list[str]] = {name: [] for name in Imported.__dataclass_fields__}
    with writing(library.engine) as connection:
        counted: dict[str, bool] = {}
        for line in sorted(playbooks_, key=_grown, reverse=True):
            here, how = _take(connection, line, library.clock())
            counted.setdefault(line.id, how == "created")
            done[how].append(here.slug)
        for execution in executions:
            if _take_execution(connection, execution, counted, library.clock()):
                done["executions"].append(execution.id)
    return Imported(**{how: tuple(names) for how, names in done.items()})


def _grown(line: PlaybookLine) -> tuple[int, int]:
    return line.version, sum(line.counts.model_dump().values())


def _take(connection: Connection, line: PlaybookLine, at: datetime) -> tuple[Playbook, str]:
    content = line.content
    here = store.by_id(connection, [line.id]).get(line.id)
    if here is not None and here.status == "archived":
        content = replace(content, status="archived")
    if here is None:
        who = Identity(line.id, line.slug)
        here = store.add(connection, content, source=line.source, at=at, identity=who)
        _as_it_was(connection, here, line)
        how = "created"
    elif content_of(here) == content:
        how = "unchanged"
    elif line.version > here.version:
        store.change(connection, here, content, source="import", at=at)
        how = "updated"
    else:
        how = "kept"
    taught = [(lesson.text, lesson.run_id) for lesson in line.lessons]
    restore_lessons(connection, here.key, taught, at)
    return here, how


def _as_it_was(connection: Connection, made: Playbook, line: PlaybookLine) -> None:
    """Give a playbook that was made just now the past that it had elsewhere."""
    moments = {
        "created_at": line.created_at or made.created_at,
        "updated_at": line.updated_at or made.updated_at,
        "last_used_at": line.last_used_at,
    }
    values = {**line.counts.model_dump(), **moments, "version": line.version}
    connection.execute(update(playbooks).where(playbooks.c.key == made.key).values(**values))
    mine = versions.c.playbook_key == made.key
    if line.version in {one.version for one in line.history}:
        connection.execute(delete(versions).where(mine))
    else:
        connection.execute(update(versions).where(mine).values(version=line.version))
    past = [
        {**one.model_dump(), "content": content_json(one.content), "playbook_key": made.key}
        for one in line.history
    ]
    if past:
        connection.execute(insert(versions), past)


def _take_execution(
    connection: Connection, execution: Execution, counted: Mapping[str, bool], at: datetime
) -> bool:
    ref = execution.playbook_id
    if ref is None:
        new = journal.restore(connection, None, execution, at)
        return new or _settle(connection, execution, at)
    playbook = store.by_id(connection, [ref]).get(ref)
    if playbook is None:
        return False
    keep = journal.restore if counted.get(ref) else journal.record
    return keep(connection, playbook.key, execution, at) or _settle(connection, execution, at)


def _settle(connection: Connection, execution: Execution, at: datetime) -> bool:
    """Give an execution that waits here the verdict that it had elsewhere."""
    waited = execution.outcome == "neutral" and execution.expires_at is not None
    if execution.outcome == "pending" or waited:
        return False
    return journal.settle(connection, execution.id, execution.outcome, at)
