"""A store as JSON lines: out of one, into another, as often as one likes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from time import sleep

from sqlalchemy import Connection, delete, insert, update

from contracts.errors import HarnessError, Interrupted
from memory.content import content_json, content_of
from memory.database import exclusive_lock, read_transaction, write_transaction
from memory.errors import ImportIncomplete
from memory.playbooks import journal, store
from memory.playbooks.lessons import restore_lessons
from memory.playbooks.library import Library
from memory.playbooks.portable_lines import (
    ExecutionLine,
    PlaybookLine,
    execution_line,
    playbook_line,
    read_line,
)
from memory.playbooks.store import PlaybookIdentity
from memory.tables import playbooks, versions
from memory.types import Execution, Playbook

AT_ONCE = 50
"""Lines that are taken in before others have their turn to write."""

PAUSE_S = 0.01
"""Between two batches: other writers only look now and then whether it is their turn."""


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
    """One line a playbook, archived ones too, with its history; then one line an execution.

    Raises:
        StoreCorrupt: a row is damaged: an export without it would look whole.
    """
    with read_transaction(library.engine) as connection:
        for playbook in store.list_everything(connection):
            yield playbook_line(playbook, store.history(connection, playbook.key))
        for execution in reversed(journal.list_executions(connection)):
            yield execution_line(execution)


def import_(library: Library, lines: Iterable[str]) -> Imported:
    """Take a store in; the same file twice changes nothing.

    All lines are read before the first is taken in. They are taken in bit by bit, so that others
    can write in between: each playbook at once with its executions.

    A playbook that is here, by its id, is replaced only by a higher version of it, and stays
    archived if it is. Executions of it that are not known here are added to its counts, and those
    that wait here are settled. Of lines about the same playbook the one with the highest version
    and counts goes first.

    Raises:
        PlaybookInvalid: a line that was never exported, with its number; nothing was taken in.
        ImportStopped, Interrupted: how far it came, and why no farther.
    """
    read = [read_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    done: dict[str, list[str]] = {name: [] for name in Imported.__dataclass_fields__}
    taken = 0
    try:
        with exclusive_lock(library.engine, "import"):
            for batch in _batches(_groups(read)):
                with write_transaction(library.engine) as connection:
                    new = [_take_group(connection, group, library.clock()) for group in batch]
                for how, name in chain.from_iterable(new):
                    done[how].append(name)
                taken += sum(map(len, batch))
                sleep(PAUSE_S)
    except KeyboardInterrupt as error:
        raise Interrupted(_stopped("interrupted", taken, len(read))) from error
    except HarnessError as error:
        if not taken:
            raise
        raise ImportIncomplete(_stopped(str(error), taken, len(read))) from error
    return Imported(**{how: tuple(names) for how, names in done.items()})


def _stopped(why: str, taken: int, of: int) -> str:
    rest = "import the same file again for the rest" if taken else "nothing was imported"
    return f"{why}. {taken} of {of} lines were imported: {rest}"


Group = list[PlaybookLine | Execution]
"""A playbook's lines, the one that has grown most first, then its executions; or one execution."""


def _groups(read: Iterable[PlaybookLine | ExecutionLine]) -> list[Group]:
    lines = [line for line in read if isinstance(line, PlaybookLine)]
    groups: dict[str, Group] = {}
    others: list[Group] = []
    for line in sorted(lines, key=_grown, reverse=True):
        groups.setdefault(line.id, []).append(line)
    for execution in (line.execution for line in read if isinstance(line, ExecutionLine)):
        if execution.playbook_id in groups:
            groups[execution.playbook_id].append(execution)
        else:
            others.append([execution])
    return [*groups.values(), *others]


def _batches(groups: Iterable[Group]) -> Iterator[list[Group]]:
    """As many at once as take a moment."""
    batch: list[Group] = []
    for group in groups:
        batch.append(group)
        if sum(map(len, batch)) >= AT_ONCE:
            yield batch
            batch = []
    yield batch


def _take_group(connection: Connection, group: Group, at: datetime) -> list[tuple[str, str]]:
    """What was done, and to what."""
    done = []
    counted: dict[str, bool] = {}
    for one in group:
        if isinstance(one, PlaybookLine):
            here, how = _take(connection, one, at)
            counted.setdefault(one.id, how == "created")
            done.append((how, here.slug))
        elif _take_execution(connection, one, counted, at):
            done.append(("executions", one.id))
    return done


def _grown(line: PlaybookLine) -> tuple[int, int]:
    return line.version, sum(line.counts.model_dump().values())


def _take(connection: Connection, line: PlaybookLine, at: datetime) -> tuple[Playbook, str]:
    content = line.content
    here = store.lock_playbook(connection, line.id)
    if here is not None and here.status == "archived":
        content = replace(content, status="archived")
    if here is None:
        who = PlaybookIdentity(line.id, line.slug)
        here = store.add(connection, content, source=line.source, at=at, identity=who)
        _as_it_was(connection, here, line)
        how = "created"
    elif content_of(here) == content:
        how = "unchanged"
    elif line.version > here.version:
        store.change(connection, here, content, source="import", at=at, version=line.version)
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
        new = journal.import_execution(connection, None, execution, at)
        return new or _settle(connection, execution, at)
    playbook = store.by_id(connection, [ref]).get(ref)
    if playbook is None:
        return False
    keep = journal.import_execution if counted.get(ref) else journal.record_execution
    return keep(connection, playbook.key, execution, at) or _settle(connection, execution, at)


def _settle(connection: Connection, execution: Execution, at: datetime) -> bool:
    """Give an execution that waits here the verdict that it had elsewhere."""
    waited = execution.outcome == "neutral" and execution.expires_at is not None
    if execution.outcome == "pending" or waited:
        return False
    return journal.settle_execution(connection, execution.id, execution.outcome, at)
