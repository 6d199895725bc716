"""Content of notes and examples: checked before it is stored, and converted to and from JSON."""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Literal, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from memory.content import first_problem, normalized_digest, sanitize_text, to_json
from memory.errors import EntryInvalid
from memory.notes.types import (
    AGENT_WRITABLE_TYPES,
    BaseType,
    Entry,
    EntryContent,
    EntryFields,
    EntryKind,
    EntryStatus,
    ExampleContent,
    NoteContent,
    NoteType,
    Protection,
)
from memory.scope import validate_scope

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
    """Return the content as it is stored: trimmed, with every word in its canonical spelling.

    Raises:
        EntryInvalid: a text is empty, too long or cannot be stored, or a value is out of range.
    """
    checked = replace(
        content,
        scope=validate_scope(content.scope),
        status=match_word("status", content.status, ENTRY_STATUSES),
        protection=match_word("protection", content.protection, get_args(Protection)),
        expires_at=_with_time_zone(content.expires_at),
    )
    if isinstance(checked, NoteContent):
        return replace(
            checked,
            text=check_text("a note", checked.text, NOTE_LIMIT),
            type=match_word("type", checked.type, BASE_TYPES),
            note_type=(checked.note_type or checked.type).strip(),
        )
    return replace(
        checked,
        input=check_text("an example's input", checked.input, EXAMPLE_LIMIT),
        output=check_text("an example's output", checked.output, EXAMPLE_LIMIT),
        score=check_score(checked.score),
    )


def check_agent_may_write(content: EntryContent) -> None:
    """Refuse a note that instructs: agents may only describe.

    Raises:
        EntryInvalid: it is a Constraint or a Preference.
    """
    if isinstance(content, NoteContent) and content.type not in AGENT_WRITABLE_TYPES:
        raise EntryInvalid(
            f"an agent cannot write a {content.type}, because that type instructs other agents. "
            f"It may write {', '.join(AGENT_WRITABLE_TYPES)}; a person writes the rest"
        )


def check_run_id(run_id: str | None) -> None:
    """Refuse a text that cannot be the id of a run.

    Raises:
        EntryInvalid: it is too long, or contains unprintable characters.
    """
    if run_id is not None and not (run_id.isprintable() and len(run_id) <= NAME_LIMIT):
        raise EntryInvalid(f"no run has the id {run_id[:80]!r}: `harness runs list` shows them")


def check_note_type(wanted: NoteType) -> NoteType:
    """Return the note type as it is stored.

    Raises:
        EntryInvalid: the name, the priority or the description is not valid.
    """
    name = " ".join(check_text("a note type's name", wanted.name, NAME_LIMIT).split())
    if not name.isprintable():
        raise EntryInvalid(f"note type {name!r} contains unprintable characters")
    if not 0 <= wanted.priority <= 1_000:
        raise EntryInvalid(
            f"priority {wanted.priority} of note type {name!r} is not from 0 to 1000"
        )
    if len(wanted.description) > NOTE_LIMIT:
        raise EntryInvalid(
            f"note type {name!r} has a description of over {NOTE_LIMIT:,} characters"
        )
    return replace(
        wanted,
        name=name,
        type=match_word("type", wanted.type, BASE_TYPES),
        description=sanitize_text(wanted.description),
    )


def check_score(score: int) -> int:
    """Return the score.

    Raises:
        EntryInvalid: it is not a number from 0 to 100.
    """
    if isinstance(score, bool) or not 0 <= score <= 100:
        raise EntryInvalid(f"score {score!r} is out of range: 0 is useless, 100 is perfect")
    return score


def match_word(field: str, text: str, words: tuple[Word, ...]) -> Word:
    """Return the word that `text` spells in any case.

    Raises:
        EntryInvalid: lists the words.
    """
    for word in words:
        if word.lower() == text.strip().lower():
            return word
    raise EntryInvalid(f"no {field} {text!r}; there are {', '.join(words)}")


def check_text(field: str, text: str, limit: int) -> str:
    """Return the text without surrounding white space.

    Raises:
        EntryInvalid: it is empty, longer than `limit`, or not storable in every database.
    """
    if not text.strip():
        raise EntryInvalid(f"{field} cannot be empty: write what an agent should know")
    if len(text) > limit:
        raise EntryInvalid(f"{field} has {len(text):,} characters; the limit is {limit:,}")
    if "\0" in text or text != sanitize_text(text):
        raise EntryInvalid(
            f"{field} contains a NUL byte or half a character: {text[:40]!r}. Remove it"
        )
    return text.strip()


def kind_of(content: EntryContent) -> EntryKind:
    """Return whether the content is a note or an example."""
    return "note" if isinstance(content, NoteContent) else "example"


def effective_status(entry: EntryFields, at: datetime) -> EntryStatus | Literal["over"]:
    """Return the status, or `over` for an Active entry that has expired."""
    is_over = entry.expires_at is not None and entry.expires_at <= at
    return "over" if is_over and entry.status == "Active" else entry.status


def searchable_text(content: EntryContent) -> str:
    """Return the text that searches compare with a task: the note, or the example's input."""
    return content.text if isinstance(content, NoteContent) else content.input


def content_digest(content: EntryContent) -> str:
    """Return a hash that ignores case, white space and punctuation, to find exact duplicates."""
    if isinstance(content, NoteContent):
        return normalized_digest(content.text)
    return normalized_digest(f"{content.input} {content.output}")


def entry_content_json(content: EntryContent) -> dict[str, object]:
    """Return the content as JSON, without the fields that the notebook sets."""
    kind = NoteContent if isinstance(content, NoteContent) else ExampleContent
    return to_json(content, *kind.__dataclass_fields__)


def entry_content_from_json(document: object) -> EntryContent:
    """Return the content of a document that `entry_content_json` made."""
    is_note = isinstance(document, dict) and "text" in document
    return _parse(document, "note" if is_note else "example")


def entry_json(entry: Entry) -> dict[str, object]:
    """Return all fields of a stored note or example as JSON."""
    fields = to_json(entry)
    del fields["key"]
    return {"id": entry.id, "kind": kind_of(entry), **fields}


def editable_json(entry: Entry) -> str:
    """Return the content as JSON for a person's editor; `parse_edited_json` reads it back."""
    return json.dumps(entry_content_json(entry), indent=2, ensure_ascii=False) + "\n"


def parse_edited_json(text: str, kind: EntryKind, before: EntryContent) -> EntryContent:
    """Return the content of a person's JSON; fields that it omits keep their value in `before`.

    Raises:
        EntryInvalid: it is not JSON, or not content of that kind; names the first fault.
    """
    expected = "a note" if kind == "note" else "an example"
    try:
        return _parse(_merge(before, json.loads(text)), kind)
    except json.JSONDecodeError as error:
        raise EntryInvalid(f"not {expected}: {error}. Write it as a JSON object") from error
    except ValidationError as error:
        raise EntryInvalid(f"not {expected}: {first_problem(error)}") from error


def _merge(before: EntryContent, edited: object) -> object:
    if not isinstance(edited, dict):
        return edited
    merged = entry_content_json(before)
    if edited.get("type", merged.get("type")) != merged.get("type"):
        merged["note_type"] = ""  # the stored note type may belong to another base type
    merged |= edited
    if isinstance(edited.get("scope"), dict):
        merged["scope"] = asdict(before.scope) | edited["scope"]
    return merged


def _parse(document: object, kind: EntryKind) -> EntryContent:
    adapter: TypeAdapter[NoteContent] | TypeAdapter[ExampleContent]
    adapter = _NOTE if kind == "note" else _EXAMPLE
    return adapter.validate_python(document, extra="forbid")


def _with_time_zone(moment: datetime | None) -> datetime | None:
    if moment is not None and moment.tzinfo is None:
        raise EntryInvalid(f"moment {moment} has no time zone: write it as 2026-01-31T12:00+00:00")
    return moment and moment.astimezone(UTC)
