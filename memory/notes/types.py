"""Notes and examples: what they say, for which scope, and who wrote them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import TypeAdapter

from memory.scope import EVERYONE, Scope

EntryKind = Literal["note", "example"]
BaseType = Literal["Preference", "Constraint", "Context", "Example", "Issue"]
EntryStatus = Literal["Pending", "Active", "Revoked"]
Protection = Literal["Normal", "Protected"]
AuthorKind = Literal["person", "curator", "agent"]
ReviewFlagKind = Literal["near", "contradicts"]
ScopeKind = Literal["agent", "user", "company", "everyone"]
EntrySort = Literal["updated", "created", "type", "status", "score", "text", "scope"]

ALWAYS_RELEVANT_TYPES: tuple[BaseType, ...] = ("Constraint", "Preference")
"""Types that instruct an agent. They apply to every task, also to one that they do not resemble."""

AGENT_WRITABLE_TYPES: tuple[BaseType, ...] = ("Context", "Example", "Issue")
"""Types that describe. The other types instruct, so agents must not write them."""


_AUTHOR_KIND: TypeAdapter[AuthorKind] = TypeAdapter(AuthorKind)


@dataclass(frozen=True)
class Author:
    """Author of a version. `name` is a user, an agent, or the curator's model."""

    kind: AuthorKind = "person"
    name: str = ""

    @property
    def label(self) -> str:
        """The author as text, in the form in which it is stored."""
        return f"{self.kind} {self.name}".strip()[:255]

    @classmethod
    def from_label(cls, label: str) -> "Author":
        """Return the author of a stored text."""
        kind, _, name = label.partition(" ")
        return cls(_AUTHOR_KIND.validate_python(kind), name)


@dataclass(frozen=True)
class ReviewFlag:
    """Warning for the person who reviews an entry: compare it with the entry `other` (an id)."""

    kind: ReviewFlagKind
    other: str
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class EntryFields:
    """Fields of notes and examples that a person decides. Each of them can be changed and undone.

    An entry with `expires_at` is provisional: it is ignored from that moment on. A Protected
    entry is revoked or replaced by a person only.
    """

    scope: Scope = EVERYONE
    status: EntryStatus = "Active"
    expires_at: datetime | None = None
    protection: Protection = "Normal"


@dataclass(frozen=True, kw_only=True)
class NoteContent(EntryFields):
    """Content of a note. An empty `note_type` means the standard note type named as `type`."""

    text: str
    type: BaseType = "Context"
    note_type: str = ""


@dataclass(frozen=True, kw_only=True)
class ExampleContent(EntryFields):
    """Content of an example: a request, its answer, and the answer's score from 0 to 100."""

    input: str
    output: str
    score: int = 100


@dataclass(frozen=True, kw_only=True)
class EntryRecord:
    """Fields that the notebook sets when it stores an entry. Each change adds 1 to `version`."""

    id: str
    key: int
    version: int
    author: Author
    source_run: str | None
    confidence: int | None
    """The curator's confidence from 0 to 100. None for other authors."""
    flags: tuple[ReviewFlag, ...]
    evidence: str = ""
    """Literal quote from the run that the curator's entry was concluded from."""
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class Note(NoteContent, EntryRecord):
    """A stored note. `priority` is that of its note type."""

    priority: int = 0


@dataclass(frozen=True, kw_only=True)
class Example(ExampleContent, EntryRecord):
    """A stored example."""


EntryContent = NoteContent | ExampleContent
Entry = Note | Example


@dataclass(frozen=True, kw_only=True)
class NoteType:
    """A user-defined category of notes with a base type. Higher `priority` is shown first."""

    name: str
    type: BaseType
    priority: int
    description: str = ""
    standard: bool = False


@dataclass(frozen=True, kw_only=True)
class EntryFilter:
    """Which entries a list shows, in which order. None matches every value."""

    status: EntryStatus | None = None
    type: BaseType | None = None
    note_type: str | None = None
    scope_kind: ScopeKind | None = None
    agent: str | None = None
    user: str | None = None
    company: str | None = None
    source_run: str | None = None
    author: AuthorKind | None = None
    flagged: bool | None = None
    text: str = ""
    """Words that must all occur in the entry, in any case."""
    sort: EntrySort = "updated"
    descending: bool = True
    limit: int | None = None
    offset: int = 0
