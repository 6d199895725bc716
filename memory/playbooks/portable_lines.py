"""The lines of an exported store: written, and read back with bounds on all that they say."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from contracts.json import as_mapping
from memory.content import content_json, sanitize_text, validate_content
from memory.errors import PlaybookInvalid
from memory.playbooks.lessons import LESSON_LIMIT
from memory.types import Execution, OutcomeCounts, Playbook, PlaybookContent, PlaybookVersion

FORMAT = 3
"""1 had neither executions nor history, 2 no words of a person beside a run's; both are read."""

_NO_NUL = r"^[^\x00]*$"
_Content = Annotated[PlaybookContent, AfterValidator(validate_content)]
_Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
_Number = Annotated[int, Field(ge=1, le=1_000_000_000)]
_Id = Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]
_Run = Annotated[str, Field(max_length=64, pattern=_NO_NUL)]
_Name = Annotated[str, Field(max_length=255, pattern=_NO_NUL)]
_Moment = Annotated[
    AwareDatetime,
    Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(9999, 1, 1, tzinfo=UTC)),
]


class _Counts(BaseModel, frozen=True, extra="forbid"):
    successes: _Count
    partials: _Count
    failures: _Count


class _Lesson(BaseModel, frozen=True, extra="forbid"):
    text: str = Field(min_length=1, max_length=LESSON_LIMIT)
    run_id: _Run | None


class _Past(BaseModel, frozen=True, extra="forbid"):
    version: _Number
    at: _Moment
    source: _Name
    content: _Content


class PlaybookLine(BaseModel, frozen=True, extra="forbid"):
    """A playbook with its lessons and its history."""

    format: int
    id: _Id
    slug: str = Field(pattern=r"^[a-z0-9-]{1,120}$")
    version: _Number
    content: _Content
    counts: _Counts
    lessons: list[_Lesson]
    history: list[_Past] = []
    source: _Name = "import"
    created_at: _Moment | None = None
    updated_at: _Moment | None = None
    last_used_at: _Moment | None = None

    @model_validator(mode="after")
    def _has_one_past(self) -> "PlaybookLine":
        versions = [past.version for past in self.history]
        if len(set(versions)) < len(versions) or max(versions, default=0) > self.version:
            raise ValueError(f"a history up to version {self.version} has each version once")
        return self


class ExecutionLine(BaseModel, frozen=True, extra="forbid"):
    """One execution."""

    format: int
    execution: Execution


class _Bounds(BaseModel, frozen=True, extra="ignore", from_attributes=True):
    """What an execution may say where the database has limits."""

    id: str = Field(min_length=1, max_length=36, pattern=_NO_NUL)
    playbook_id: _Id | None
    playbook_version: _Number | None
    run_id: _Run | None
    started_at: _Moment | None
    completed_at: _Moment | None
    expires_at: _Moment | None


_EXECUTION = TypeAdapter(Execution)


def read_line(number: int, line: str) -> PlaybookLine | ExecutionLine:
    """What a line says; `number` is for the person who has to mend it.

    Raises:
        PlaybookInvalid: it was never exported, or by a newer Harness.
    """
    try:
        document = json.loads(line)
        _check_format(document)
        if isinstance(document, dict) and "execution" in document:
            read = ExecutionLine.model_validate(document, extra="forbid")
            _Bounds.model_validate(read.execution)
            return read
        return PlaybookLine.model_validate(document, extra="forbid")
    except (PlaybookInvalid, ValueError, RecursionError) as error:
        raise PlaybookInvalid(
            f"line {number} cannot be imported: {_fault(error)}. Nothing was imported. "
            "Use a file as `harness memory export` wrote it"
        ) from error


def playbook_line(playbook: Playbook, past: Iterable[PlaybookVersion]) -> str:
    """A playbook as a line."""
    used = playbook.last_used_at
    return _dumped(
        {
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
    )


def execution_line(execution: Execution) -> str:
    """An execution as a line."""
    document = _EXECUTION.dump_python(execution, mode="json")
    return _dumped({"format": FORMAT, "execution": document})


def _check_format(document: object) -> None:
    found = as_mapping(document).get("format")
    if isinstance(found, int) and not 1 <= found <= FORMAT:
        raise PlaybookInvalid(
            f"it has format {found}, and this Harness reads up to {FORMAT}: update Harness"
        )


def _fault(error: Exception) -> str:
    match error:
        case ValidationError():
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            told = first["msg"].removeprefix("Value error, ")
            return f"{place!r}: {told}" if place else told
        case json.JSONDecodeError():
            return f"it is no JSON ({error.msg} at character {error.pos})"
        case RecursionError():
            return "it is nested too deeply"
        case _:
            return str(error)


def _dumped(document: object) -> str:
    return sanitize_text(
        json.dumps(document, ensure_ascii=False)
    )  # an older store may hold half signs


def _past(version: PlaybookVersion) -> dict[str, object]:
    return {
        "version": version.version,
        "at": version.at.isoformat(),
        "source": version.source,
        "content": content_json(version.content),
    }


def _counts(counts: OutcomeCounts) -> dict[str, int]:
    return {
        "successes": counts.successes,
        "partials": counts.partials,
        "failures": counts.failures,
    }
