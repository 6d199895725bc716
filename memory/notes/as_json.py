"""Notes, examples and what a prompt is given as JSON shows them, and as a person edits them."""

import json
from dataclasses import asdict

from pydantic import ValidationError

from memory.errors import NoteInvalid
from memory.notes import content
from memory.notes.injection import Injection
from memory.notes.types import Entry, EntryContent, EntryKind, Note


def entry_json(entry: Entry) -> dict[str, object]:
    """Everything that is known of a note or an example."""
    document = {
        "id": entry.id,
        "kind": content.kind_of(entry),
        "version": entry.version,
        **content.entry_content_json(entry),
        "author": entry.author._asdict(),
        "source_run": entry.source_run,
        "confidence": entry.confidence,
        "flags": [flag._asdict() for flag in entry.flags],
        "created_at": entry.created_at.isoformat(),
        "updated_at": entry.updated_at.isoformat(),
    }
    return document | ({"priority": entry.priority} if isinstance(entry, Note) else {})


def injection_json(injection: Injection) -> dict[str, object]:
    """What a prompt is given, and why."""
    return {
        "text": injection.text,
        "notes": [_shown(entry, injection) for entry in injection.notes],
        "examples": [_shown(entry, injection) for entry in injection.examples],
        "left_out": [{"id": left.entry.id, "why": left.why} for left in injection.left_out],
        "why": list(injection.why),
        "settings": asdict(injection.options),
    }


def editable_json(entry: Entry) -> str:
    """The content as JSON to edit."""
    return json.dumps(content.entry_content_json(entry), indent=2, ensure_ascii=False) + "\n"


def parse_edited_json(text: str, kind: EntryKind, before: EntryContent) -> EntryContent:
    """Content from a JSON text that a person wrote; what it does not name stays as before.

    Raises:
        NoteInvalid: it is no JSON, or no content of that kind; the first fault is named.
    """
    try:
        return content.parse_entry_content(_over(before, json.loads(text)), kind)
    except json.JSONDecodeError as error:
        raise NoteInvalid(f"not {_a(kind)}: {error}. Write it as a JSON object") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise NoteInvalid(f"not {_a(kind)}: {place!r}: {first['msg']}") from error


def _over(before: EntryContent, given: object) -> object:
    if not isinstance(given, dict):
        return given
    kept = content.entry_content_json(before)
    if given.get("type", kept.get("type")) != kept.get("type"):
        kept["note_type"] = ""  # the one before may not be of the new type
    whose = given.get("scope")
    if isinstance(whose, dict):
        given = {**given, "scope": {**asdict(before.scope), **whose}}
    return {**kept, **given}


def _a(kind: EntryKind) -> str:
    return "a note" if kind == "note" else "an example"


def _shown(entry: Entry, injection: Injection) -> dict[str, object]:
    return {**entry_json(entry), "distance": injection.distances.get(entry.key)}
