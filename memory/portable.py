"""Playbooks as JSON lines: out of one store, into another, as often as one likes."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError
from sqlalchemy import update

from memory.content import checked, content_json, content_of, parse_content
from memory.database import writing
from memory.errors import PlaybookInvalid
from memory.journal import restore_lessons
from memory.library import Library
from memory.store import Identity, add, change, find
from memory.tables import playbooks
from memory.types import Counts, Filter, Playbook

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import did, as slugs. `kept` differ and are as new or newer here."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def export(library: Library) -> Iterator[str]:
    """One line a playbook, archived ones too: content, counts and lessons; no executions."""
    for playbook in sorted(library.list(Filter(archived=True)), key=lambda p: p.id):
        yield json.dumps(_document(playbook), ensure_ascii=False)


def import_(library: Library, lines: Iterable[str]) -> Imported:
    """Take playbooks in by their ids, all or none; the same file twice changes nothing.

    A playbook that is here is replaced only by a higher version of it. Its counts stay ours.

    Raises:
        PlaybookInvalid: a line that is no playbook, with its number.
    """
    read = [_read(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    done: dict[str, list[str]] = {"created": [], "updated": [], "unchanged": [], "kept": []}
    with writing(library.engine) as connection:
        for line in read:
            content = checked(parse_content(line.content))
            here = find(connection, line.id)
            at = library.clock()
            if here is None:
                who = Identity(line.id, line.slug)
                here = add(connection, content, source="import", at=at, identity=who)
                counts = line.counts.model_dump()
                connection.execute(
                    update(playbooks).where(playbooks.c.key == here.key).values(**counts)
                )
                how = "created"
            elif content_of(here) == content:
                how = "unchanged"
            elif line.version > here.version:
                change(connection, here, content, source="import", at=at)
                how = "updated"
            else:
                how = "kept"
            restore_lessons(connection, here.key, [(e.text, e.run_id) for e in line.lessons], at)
            done[how].append(here.slug)
    return Imported(**{how: tuple(slugs) for how, slugs in done.items()})


class _Counts(BaseModel, frozen=True, extra="forbid"):
    successes: int
    partials: int
    failures: int


class _Lesson(BaseModel, frozen=True, extra="forbid"):
    text: str
    run_id: str | None


class _Line(BaseModel, frozen=True, extra="forbid"):
    format: int
    id: str
    slug: str
    version: int
    content: dict[str, object]
    counts: _Counts
    lessons: list[_Lesson]


def _read(number: int, line: str) -> _Line:
    try:
        read = _Line.model_validate(json.loads(line))
    except (json.JSONDecodeError, ValidationError) as error:
        raise PlaybookInvalid(
            f"line {number} is no exported playbook ({str(error).splitlines()[0]}); nothing was "
            "imported. Use a file that `harness memory export` wrote"
        ) from error
    if read.format != FORMAT:
        raise PlaybookInvalid(
            f"line {number} has format {read.format}; this Harness reads {FORMAT}. Update Harness"
        )
    return read


def _document(playbook: Playbook) -> dict[str, object]:
    return {
        "format": FORMAT,
        "id": playbook.id,
        "slug": playbook.slug,
        "version": playbook.version,
        "content": content_json(playbook),
        "counts": _counts(playbook.counts),
        "lessons": [{"text": e.text, "run_id": e.run_id} for e in playbook.lessons],
    }


def _counts(counts: Counts) -> dict[str, int]:
    return {
        "successes": counts.successes,
        "partials": counts.partials,
        "failures": counts.failures,
    }
