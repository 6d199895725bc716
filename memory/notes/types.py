"""What the notebook holds: notes and examples, whom they are for, and who stands for them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from memory.scope import EVERYONE, Scope

EntryKind = Literal["note", "example"]
BaseType = Literal["Preference", "Constraint", "Context", "Example", "Issue"]
EntryStatus = Literal["Pending", "Active", "Revoked"]
Protection = Literal["Normal", "Protected"]
AuthorKind = Literal["person", "curator", "agent"]
ReviewFlagKind = Literal["near", "contradicts"]

ALWAYS_RELEVANT_TYPES: tuple[BaseType, ...] = ("Constraint", "Preference")
"""Types that tell what to do, whatever the task is."""

AGENT_WRITABLE_TYPES: tuple[BaseType, ...] = ("Context", "Example", "Issue")
"""Types that say how things are. The others tell what to do, so no agent may write them."""


class Author(NamedTuple):
    """Who wrote something; `name` is a user, an agent, or the model of the curator."""

    kind: AuthorKind = "person"
    name: str = ""


class ReviewFlag(NamedTuple):
    """Something that a person should see next to `other` before they approve it."""

    kind: ReviewFlagKind
    other: str
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class EntryFields:
    """What people decide about a note or an example; all of it can be changed and undone.

    With `expires_at` it is provisional: it holds until then. What is Protected is never
    revoked or replaced without a person.
    """

    scope: Scope = EVERYONE
    status: EntryStatus = "Active"
    expires_at: datetime | None = None
    protection: Protection = "Normal"


@dataclass(frozen=True, kw_only=True)
class NoteContent(EntryFields):
    """A note as it is written. An empty `note_type` means the standard one of its type."""

    text: str
    type: BaseType = "Context"
    note_type: str = ""


@dataclass(frozen=True, kw_only=True)
class ExampleContent(EntryFields):
    """An example as it is written: what was asked, what was answered, how good it was, 0 to 100."""

    input: str
    output: str
    score: int = 100


@dataclass(frozen=True, kw_only=True)
class EntryRecord:
    """What is known of a note or an example once it is kept. `version` grows with each change."""

    id: str
    key: int
    version: int
    author: Author
    source_run: str | None
    confidence: int | None
    """How sure the curator was, 0 to 100; None when nobody was asked."""
    flags: tuple[ReviewFlag, ...]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class Note(NoteContent, EntryRecord):
    """A note as it is kept. `priority` is its note type's."""

    priority: int = 0


@dataclass(frozen=True, kw_only=True)
class Example(ExampleContent, EntryRecord):
    """An example as it is kept."""


EntryContent = NoteContent | ExampleContent
Entry = Note | Example


@dataclass(frozen=True, kw_only=True)
class EntryVersion:
    """A note or an example as it once was."""

    version: int
    at: datetime
    author: Author
    content: EntryContent


@dataclass(frozen=True, kw_only=True)
class NoteType:
    """A finer word for a kind of note; of equally specific notes, higher `priority` comes first."""

    name: str
    type: BaseType
    priority: int
    description: str = ""
    standard: bool = False


ScopeKind = Literal["agent", "user", "company", "everyone"]
EntrySort = Literal["updated", "created", "type", "status", "score", "text", "scope"]


@dataclass(frozen=True, kw_only=True)
class EntryFilter:
    """Which entries of a list are meant, and in which order. None leaves a field open."""

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
    """All of these words stand in it, in any case."""
    sort: EntrySort = "updated"
    descending: bool = True
    limit: int | None = None
    offset: int = 0
