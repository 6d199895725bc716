"""Lines of an export of the store, JSON of one type each, and their validation on import.

`{"format": 4, "type": "playbook" | "execution" | "note" | "example" | "note_type" |
"agent_settings", …}`. An import
takes nothing on trust: every field has a limit, and unknown fields are refused.
"""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from contracts.errors import BadInput
from memory.content import (
    content_json,
    first_problem,
    sanitize_text,
    to_json,
    validate_content,
)
from memory.errors import EntryInvalid
from memory.notes.agent_settings import AgentSettings, check_settings
from memory.notes.content import (
    check_agent_may_write,
    check_content,
    check_note_type,
    check_run_id,
    entry_content_json,
    kind_of,
)
from memory.notes.types import (
    Author,
    AuthorKind,
    Entry,
    ExampleContent,
    NoteContent,
    NoteType,
)
from memory.playbooks.write import LESSON_LIMIT
from memory.types import EntryVersion, Execution, Playbook, PlaybookContent

FORMAT = 4
"""Format 1 had playbooks only; 2 added executions and history; 3 approved failure texts; 4 notes,
examples, note types and the field `type`. All of them are read."""

_NO_NUL = r"^[^\x00]*$"
_Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
_Number = Annotated[int, Field(ge=1, le=1_000_000_000)]
_Id = Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]
_RunId = Annotated[str, Field(max_length=64, pattern=_NO_NUL)]
_Name = Annotated[str, Field(max_length=255, pattern=_NO_NUL)]
_Timestamp = Annotated[
    AwareDatetime,
    Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(9999, 1, 1, tzinfo=UTC)),
]
_PlaybookContent = Annotated[PlaybookContent, AfterValidator(validate_content)]
_EntryContent = Annotated[NoteContent | ExampleContent, AfterValidator(check_content)]


class _Line(BaseModel, frozen=True, extra="forbid"):
    format: int


class _Counts(BaseModel, frozen=True, extra="forbid"):
    successes: _Count
    partials: _Count
    failures: _Count


class _Lesson(BaseModel, frozen=True, extra="forbid"):
    text: str = Field(min_length=1, max_length=LESSON_LIMIT)
    run_id: _RunId | None


class _PlaybookVersion(BaseModel, frozen=True, extra="forbid"):
    version: _Number
    at: _Timestamp
    source: _Name
    content: _PlaybookContent


class PlaybookLine(_Line, frozen=True):
    """A playbook with its lessons and history."""

    type: Literal["playbook"] = "playbook"
    id: _Id
    slug: str = Field(pattern=r"^[a-z0-9-]{1,120}$")
    version: _Number
    content: _PlaybookContent
    counts: _Counts
    lessons: list[_Lesson]
    history: list[_PlaybookVersion] = []
    source: _Name = "import"
    created_at: _Timestamp | None = None
    updated_at: _Timestamp | None = None
    last_used_at: _Timestamp | None = None

    @model_validator(mode="after")
    def _check_history(self) -> "PlaybookLine":
        _check_versions([past.version for past in self.history], self.version)
        return self


class _ExecutionLimits(BaseModel, frozen=True, extra="ignore", from_attributes=True):
    id: str = Field(min_length=1, max_length=36, pattern=_NO_NUL)
    playbook_id: _Id | None
    playbook_version: _Number | None
    run_id: _RunId | None
    started_at: _Timestamp | None
    completed_at: _Timestamp | None
    expires_at: _Timestamp | None


def _check_execution(execution: Execution) -> Execution:
    _ExecutionLimits.model_validate(execution)
    return execution


class ExecutionLine(_Line, frozen=True):
    """One execution."""

    type: Literal["execution"] = "execution"
    execution: Annotated[Execution, AfterValidator(_check_execution)]


class _Author(BaseModel, frozen=True, extra="forbid"):
    kind: AuthorKind
    name: _Name = ""


class _Flag(BaseModel, frozen=True, extra="forbid"):
    kind: Literal["near", "contradicts"]
    other: _Id
    why: str = Field(default="", max_length=2_000, pattern=_NO_NUL)


class _EntryVersion(BaseModel, frozen=True, extra="forbid"):
    version: _Number
    at: _Timestamp
    author: _Author
    content: _EntryContent


class EntryLine(_Line, frozen=True):
    """A note or an example with its history."""

    type: Literal["note", "example"]
    id: _Id
    version: _Number
    content: _EntryContent
    author: _Author
    source_run: _RunId | None = None
    confidence: int | None = Field(default=None, ge=0, le=100)
    flags: list[_Flag] = Field(default=[], max_length=100)
    evidence: str = Field(default="", max_length=10_000, pattern=_NO_NUL)
    history: list[_EntryVersion] = []
    created_at: _Timestamp
    updated_at: _Timestamp

    @model_validator(mode="after")
    def _check_entry(self) -> "EntryLine":
        _check_versions([past.version for past in self.history], self.version)
        contents = [self.content, *(past.content for past in self.history)]
        if any(kind_of(content) != self.type for content in contents):
            raise ValueError(f"the content is not that of a {self.type}")
        check_run_id(self.source_run)
        if self.author.kind == "agent":
            check_agent_may_write(self.content)
        return self


class NoteTypeLine(_Line, frozen=True):
    """A note type that a person added."""

    type: Literal["note_type"] = "note_type"
    note_type: Annotated[NoteType, AfterValidator(check_note_type)]


class AgentSettingsLine(_Line, frozen=True):
    """How many notes and examples an agent is given."""

    type: Literal["agent_settings"] = "agent_settings"
    settings: Annotated[AgentSettings, AfterValidator(check_settings)]


ExportLine = PlaybookLine | ExecutionLine | EntryLine | NoteTypeLine | AgentSettingsLine

_LINE: TypeAdapter[ExportLine] = TypeAdapter(Annotated[ExportLine, Field(discriminator="type")])


def read_line(number: int, line: str) -> ExportLine:
    """Validate a line of an export file; `number` is named in the error.

    Raises:
        EntryInvalid: the line was changed by hand, or is of a newer Harness.
    """
    try:
        document = json.loads(line)
        if isinstance(document, dict):
            found = document.get("format")
            if isinstance(found, int) and not 1 <= found <= FORMAT:
                raise EntryInvalid(
                    f"it has format {found}, and this Harness reads up to {FORMAT}: update Harness"
                )
            if found != FORMAT:  # formats 1 to 3 name no type
                document.setdefault("type", "execution" if "execution" in document else "playbook")
        return _LINE.validate_python(document, extra="forbid")
    except (BadInput, ValueError, RecursionError) as error:
        raise EntryInvalid(
            f"line {number} cannot be imported: {_problem(error)}. Nothing was imported. "
            "Use a file as `harness memory export` wrote it"
        ) from error


def export_line(
    item: Playbook | Execution | NoteType | AgentSettings | Entry,
    history: Iterable[EntryVersion[object]] = (),
) -> str:
    """Return an item of the store as a line, a playbook or an entry with its history."""
    times = ("created_at", "updated_at")
    match item:
        case Playbook():
            type_ = "playbook"
            document = to_json(
                item, "id", "slug", "version", "source", "counts", "last_used_at", *times
            )
            document |= {"content": content_json(item)}
            document["history"] = [to_json(version) for version in history]
            document["lessons"] = [to_json(lesson, "text", "run_id") for lesson in item.lessons]
        case Execution():
            type_, document = "execution", {"execution": to_json(item)}
        case NoteType():
            type_, document = "note_type", {"note_type": to_json(item)}
        case AgentSettings():
            type_, document = "agent_settings", {"settings": to_json(item)}
        case entry:
            type_ = kind_of(entry)
            facts = ("id", "version", "author", "source_run", "confidence", "flags", "evidence")
            document = to_json(entry, *facts, *times)
            document["content"] = entry_content_json(entry)
            document["history"] = [
                {
                    **to_json(version, "version", "at"),
                    "author": to_json(Author.from_label(version.source)),
                    "content": to_json(version.content),
                }
                for version in history
            ]
    text = json.dumps({"format": FORMAT, "type": type_, **document}, ensure_ascii=False)
    return sanitize_text(text)  # a store of an older version may hold unpaired surrogates


def count_by_type(lines: Iterable[str]) -> dict[str, int]:
    """Return how many of these exported lines there are of each type."""
    names = {"playbook": "playbooks", "execution": "executions", "note": "notes"}
    names |= {"example": "examples", "note_type": "note_types"}
    names |= {"agent_settings": "settings of agents"}
    found = Counter(json.loads(line)["type"] for line in lines)
    return {name: found[type_] for type_, name in names.items()}


def _check_versions(history: list[int], newest: int) -> None:
    if len(set(history)) < len(history) or max(history, default=0) > newest:
        raise ValueError(f"the history must have each version up to {newest} at most once")


def _problem(error: Exception) -> str:
    match error:
        case ValidationError():
            return first_problem(error)
        case json.JSONDecodeError():
            return f"it is not JSON ({error.msg} at character {error.pos})"
        case RecursionError():
            return "it is nested too deeply"
        case _:
            return str(error)
