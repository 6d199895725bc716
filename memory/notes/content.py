"""What a note or an example may hold, checked in one place."""

from dataclasses import replace
from datetime import datetime
from typing import Literal, TypeVar, get_args

from pydantic import TypeAdapter

from memory import scope
from memory.content import normalized_digest, sanitize_text
from memory.errors import NoteInvalid
from memory.notes.types import (
    AGENT_WRITABLE_TYPES,
    BaseType,
    EntryContent,
    EntryFields,
    EntryKind,
    EntryStatus,
    ExampleContent,
    NoteContent,
    NoteType,
    Protection,
)

NOTE_LIMIT = 4_000
"""Characters of a note."""

EXAMPLE_LIMIT = 20_000
"""Characters of an example's input, and of its output."""

NAME_LIMIT = 64

BASE_TYPES: tuple[BaseType, ...] = get_args(BaseType)
ENTRY_STATUSES: tuple[EntryStatus, ...] = get_args(EntryStatus)

Word = TypeVar("Word", bound=str)
C = TypeVar("C", bound=EntryContent)

_NOTE = TypeAdapter(NoteContent)
_EXAMPLE = TypeAdapter(ExampleContent)


def check_content(content: C) -> C:
    """The content as it will be kept.

    Raises:
        NoteInvalid: a text is empty, too long or cannot be stored, or a score is out of range.
    """
    own = replace(
        content,
        scope=scope.validate_scope(content.scope),
        status=match_word("status", content.status, ENTRY_STATUSES),
        protection=match_word("protection", content.protection, get_args(Protection)),
        expires_at=_aware(content.expires_at),
    )
    if isinstance(own, NoteContent):
        return replace(
            own,
            text=check_text("a note", own.text, NOTE_LIMIT),
            type=match_word("type", own.type, BASE_TYPES),
            note_type=(own.note_type or own.type).strip(),
        )
    return replace(
        own,
        input=check_text("an example's input", own.input, EXAMPLE_LIMIT),
        output=check_text("an example's output", own.output, EXAMPLE_LIMIT),
        score=check_score(own.score),
    )


def check_agent_may_write(content: EntryContent) -> None:
    """Refuse what tells others what to do: no agent may write it.

    Raises:
        NoteInvalid: it is a Constraint or a Preference.
    """
    if isinstance(content, NoteContent) and content.type not in AGENT_WRITABLE_TYPES:
        raise NoteInvalid(
            f"an agent cannot write a {content.type}: that would tell others what to do. It may "
            f"write {', '.join(AGENT_WRITABLE_TYPES)}; a person writes the rest"
        )


def check_run_id(given: str | None) -> None:
    """Refuse what cannot be the id of a run.

    Raises:
        NoteInvalid: it is longer than any, or holds signs that cannot be printed.
    """
    if given is not None and not (given.isprintable() and len(given) <= NAME_LIMIT):
        raise NoteInvalid(f"no run has the id {given[:80]!r}: `harness runs list` shows them")


def check_note_type(given: NoteType) -> NoteType:
    """A note type as it will be kept.

    Raises:
        NoteInvalid: its name or its priority cannot be.
    """
    name = " ".join(check_text("a note type's name", given.name, NAME_LIMIT).split())
    if not name.isprintable():
        raise NoteInvalid(f"note type {name!r} holds signs that cannot be printed")
    if not 0 <= given.priority <= 1_000:
        raise NoteInvalid(f"priority {given.priority} of note type {name!r} is not from 0 to 1000")
    if len(given.description) > NOTE_LIMIT:
        raise NoteInvalid(f"note type {name!r} has a description of over {NOTE_LIMIT:,} characters")
    return replace(
        given,
        name=name,
        type=match_word("type", given.type, BASE_TYPES),
        description=sanitize_text(given.description),
    )


def check_score(given: int) -> int:
    """A score that is from 0 to 100.

    Raises:
        NoteInvalid: it is not.
    """
    if isinstance(given, bool) or not 0 <= given <= 100:
        raise NoteInvalid(f"score {given!r} is out of range: 0 is useless, 100 is perfect")
    return given


def match_word(what: str, given: str, known: tuple[Word, ...]) -> Word:
    """The known word that is meant, in whatever case it was written.

    Raises:
        NoteInvalid: it is none of them.
    """
    for word in known:
        if word.lower() == given.strip().lower():
            return word
    raise NoteInvalid(f"no {what} {given!r}; there are {', '.join(known)}")


def check_text(what: str, given: str, limit: int) -> str:
    """A text as it is kept, without space around it.

    Raises:
        NoteInvalid: it is empty, longer than the limit, or holds what no database takes.
    """
    if not given.strip():
        raise NoteInvalid(f"{what} cannot be empty: write what an agent should know")
    if len(given) > limit:
        raise NoteInvalid(f"{what} has {len(given):,} characters; at most {limit:,} fit")
    if "\0" in given or given != sanitize_text(given):
        raise NoteInvalid(f"{what} holds a NUL byte or half a character: {given[:40]!r}. Remove it")
    return given.strip()


def kind_of(content: EntryContent) -> EntryKind:
    """Whether it is a note or an example."""
    return "note" if isinstance(content, NoteContent) else "example"


def effective_status(entry: EntryFields, at: datetime) -> EntryStatus | Literal["over"]:
    """Its status; `over` when it is Active and was provisional until before then."""
    is_over = entry.expires_at is not None and entry.expires_at <= at
    return "over" if is_over and entry.status == "Active" else entry.status


def searchable_text(content: EntryContent) -> str:
    """What it is found by: the note, or the example's input."""
    return content.text if isinstance(content, NoteContent) else content.input


def content_digest(content: EntryContent) -> str:
    """The same for exact restatements, which differ in case, space and marks only."""
    if isinstance(content, NoteContent):
        return normalized_digest(content.text)
    return normalized_digest(f"{content.input} {content.output}")


def entry_content_json(content: EntryContent) -> dict[str, object]:
    """The content as JSON, without what is known of it besides; `content_from` reads it back."""
    if isinstance(content, NoteContent):
        names = NoteContent.__dataclass_fields__
        return _json(_NOTE, NoteContent(**{name: getattr(content, name) for name in names}))
    names = ExampleContent.__dataclass_fields__
    return _json(_EXAMPLE, ExampleContent(**{name: getattr(content, name) for name in names}))


def entry_content_from_json(document: object) -> EntryContent:
    """Content from what `content_json` gave."""
    is_note = isinstance(document, dict) and "text" in document
    return parse_entry_content(document, "note" if is_note else "example")


def parse_entry_content(document: object, kind: EntryKind) -> EntryContent:
    """Content from outside; raises pydantic's ValidationError."""
    if kind == "note":
        return _NOTE.validate_python(document, extra="forbid")
    return _EXAMPLE.validate_python(document, extra="forbid")


def _json(adapter: TypeAdapter[C], content: C) -> dict[str, object]:
    made: dict[str, object] = adapter.dump_python(content, mode="json")
    return made


def _aware(moment: datetime | None) -> datetime | None:
    if moment is not None and moment.tzinfo is None:
        raise NoteInvalid(f"moment {moment} has no time zone: write it as 2026-01-31T12:00+00:00")
    return moment
