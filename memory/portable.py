"""A store as JSON lines: out of one, into another, as often as one likes."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, TypeAdapter, ValidationError
from sqlalchemy import Connection, delete, insert, update

from memory import journal, store
from memory.content import checked, content_json, content_of, parse_content
from memory.database import reading, writing
from memory.errors import PlaybookInvalid
from memory.lessons import restore_lessons
from memory.library import Library
from memory.store import Identity
from memory.tables import playbooks, versions
from memory.types import Counts, Execution, Filter, Playbook, Version

FORMAT = 2
"""1 had neither executions nor history; it is still read."""

_EXECUTION = TypeAdapter(Execution)


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import did, as slugs. `kept` differ and are as new or newer here.

    `executions` are those that were not known here, as ids.
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
            past = store.history(connection, playbook.key)
            yield json.dumps(_document(playbook, past), ensure_ascii=False)
        for execution in reversed(journal.list_executions(connection)):
            document = _EXECUTION.dump_python(execution, mode="json")
            yield json.dumps({"format": FORMAT, "execution": document}, ensure_ascii=False)


def import_(library: Library, lines: Iterable[str]) -> Imported:
    """Take a store in, all or nothing; the same file twice changes nothing.

    A playbook that is here, by its id, is replaced only by a higher version of it. Executions of
    it that are not known here are added to its counts.

    Raises:
        PlaybookInvalid: a line that was never exported, with its number.
    """
    read = [_read(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    done: dict[str, list[str]] = {name: [] for name in Imported.__dataclass_fields__}
    with writing(library.engine) as connection:
        counted: dict[str, bool] = {}
        for line in read:
            if isinstance(line, _Line):
                here, how = _take(connection, line, library.clock())
                counted[line.id] = how == "created"
                done[how].append(here.slug)
        for line in read:
            if isinstance(line, _ExecutionLine):
                execution = _execution(line)
                if _take_execution(connection, execution, counted, library.clock()):
                    done["executions"].append(execution.id)
    return Imported(**{how: tuple(names) for how, names in done.items()})


class _Counts(BaseModel, frozen=True, extra="forbid"):
    successes: int
    partials: int
    failures: int


class _Lesson(BaseModel, frozen=True, extra="forbid"):
    text: str
    run_id: str | None


class _Past(BaseModel, frozen=True, extra="forbid"):
    version: int
    at: datetime
    source: str
    content: dict[str, object]


class _Line(BaseModel, frozen=True, extra="forbid"):
    format: int
    id: str
    slug: str
    version: int
    content: dict[str, object]
    counts: _Counts
    lessons: list[_Lesson]
    history: list[_Past] = []
    source: str = "import"
    created_at: datetime | None = None
    updated_at: datetime | None = None
    last_used_at: datetime | None = None


class _ExecutionLine(BaseModel, frozen=True, extra="forbid"):
    format: int
    execution: dict[str, object]


_LINES: TypeAdapter[_Line | _ExecutionLine] = TypeAdapter(_Line | _ExecutionLine)


def _take(connection: Connection, line: _Line, at: datetime) -> tuple[Playbook, str]:
    content = checked(parse_content(line.content))
    here = store.find(connection, line.id)
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


def _as_it_was(connection: Connection, made: Playbook, line: _Line) -> None:
    """Give a playbook that was made just now the past that it had elsewhere."""
    moments = {
        "created_at": line.created_at or made.created_at,
        "updated_at": line.updated_at or made.updated_at,
        "last_used_at": line.last_used_at,
    }
    values = {**line.counts.model_dump(), **moments, "version": line.version}
    connection.execute(update(playbooks).where(playbooks.c.key == made.key).values(**values))
    past = [
        {**one.model_dump(), "content": content_json(parse_content(one.content))}
        for one in line.history
    ]
    mine = versions.c.playbook_key == made.key
    if past:
        connection.execute(delete(versions).where(mine))
        connection.execute(insert(versions), [{**one, "playbook_key": made.key} for one in past])
    else:
        connection.execute(update(versions).where(mine).values(version=line.version))


def _take_execution(
    connection: Connection, execution: Execution, counted: Mapping[str, bool], at: datetime
) -> bool:
    ref = execution.playbook_id
    if ref is None:
        return journal.restore(connection, None, execution, at)
    playbook = store.find(connection, ref)
    if playbook is None:
        return False
    keep = journal.restore if counted.get(ref) else journal.record
    return keep(connection, playbook.key, execution, at)


def _execution(line: _ExecutionLine) -> Execution:
    try:
        return _EXECUTION.validate_python(line.execution, extra="forbid")
    except ValidationError as error:
        raise PlaybookInvalid(
            f"an execution cannot be read ({str(error).splitlines()[0]}); nothing was imported"
        ) from error


def _read(number: int, line: str) -> _Line | _ExecutionLine:
    try:
        read = _LINES.validate_python(json.loads(line))
    except (json.JSONDecodeError, ValidationError) as error:
        raise PlaybookInvalid(
            f"line {number} is no exported playbook ({str(error).splitlines()[0]}); nothing was "
            "imported. Use a file that `harness memory export` wrote"
        ) from error
    if not 1 <= read.format <= FORMAT:
        raise PlaybookInvalid(
            f"line {number} has format {read.format}; this Harness reads up to {FORMAT}. "
            "Update Harness"
        )
    return read


def _document(playbook: Playbook, past: Iterable[Version]) -> dict[str, object]:
    used = playbook.last_used_at
    return {
        "format": FORMAT,
        "id": playbook.id,
        "slug": playbook.slug,
        "version": playbook.version,
        "source": playbook.source,
        "created_at": playbook.created_at.isoformat(),
        "updated_at": playbook.updated_at.isoformat(),
        "last_used_at": used.isoformat() if used else None,
        "content": content_json(playbook),
        "counts": _counts(playbook.counts),
        "lessons": [{"text": e.text, "run_id": e.run_id} for e in playbook.lessons],
        "history": [_past(version) for version in past],
    }


def _past(version: Version) -> dict[str, object]:
    return {
        "version": version.version,
        "at": version.at.isoformat(),
        "source": version.source,
        "content": content_json(version.content),
    }


def _counts(counts: Counts) -> dict[str, int]:
    return {
        "successes": counts.successes,
        "partials": counts.partials,
        "failures": counts.failures,
    }
