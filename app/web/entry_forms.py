"""Forms of notes, examples, note types and agents, and their conversion to memory's types."""

from dataclasses import fields, replace
from datetime import UTC, date, datetime, time
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, Field

from app.web.forms import SeenVersion, browser_text
from memory.notes.agent_settings import (
    AgentSettings,
    ExampleStrategy,
    InjectionOptions,
    NoteStrategy,
)
from memory.notes.types import (
    BaseType,
    Entry,
    EntryContent,
    EntryFilter,
    EntrySort,
    EntryStatus,
    ExampleContent,
    NoteContent,
    NoteType,
    Protection,
    ScopeKind,
)
from memory.scope import Scope

PAGE_SIZE = 100
"""Rows on one page of a list."""

Day = Annotated[date | None, BeforeValidator(lambda text: text or None)]
"""A date; an empty field means none."""


class ScopeForm(BaseModel, frozen=True):
    """Scope of a note or an example; an empty field means any."""

    agent: str = ""
    user: str = ""
    company: str = ""

    def scope(self) -> Scope:
        """Return the scope."""
        return Scope(agent=self.agent or None, user=self.user or None, company=self.company or None)


class EntryForm(ScopeForm, frozen=True):
    """Fields that the forms of notes and examples share."""

    content_type: ClassVar[type[NoteContent] | type[ExampleContent]]
    own_fields: ClassVar[tuple[str, ...]]
    """Fields of one kind of entry only."""

    status: EntryStatus = "Active"
    until: Day = None
    protection: Protection = "Normal"
    source_run: str = ""
    version: SeenVersion = 0

    def content(self) -> EntryContent:
        """Return the content of the entry."""
        own = {name: getattr(self, name) for name in self.own_fields}
        texts = {n: browser_text(value) for n, value in own.items() if isinstance(value, str)}
        return self.content_type(
            **{**own, **texts},
            scope=self.scope(),
            status=self.status,
            expires_at=datetime.combine(self.until, time.max, UTC) if self.until else None,
            protection=self.protection,
        )

    def apply(self, entry: Entry) -> Entry:
        """Return the entry with the form's content and the version that the form displayed."""
        return replace(entry, **vars(self.content()), version=self.version)

    @classmethod
    def of(cls, entry: Entry) -> "EntryForm":
        """Return the form that displays an entry."""
        own = {name: getattr(entry, name) for name in cls.own_fields}
        scope = {name: value or "" for name, value in vars(entry.scope).items()}
        return cls.model_validate(
            {
                **own,
                **scope,
                "status": entry.status,
                "until": entry.expires_at.date() if entry.expires_at else None,
                "protection": entry.protection,
                "source_run": entry.source_run or "",
                "version": entry.version,
            }
        )


class NoteForm(EntryForm, frozen=True):
    """A note."""

    content_type: ClassVar = NoteContent
    own_fields: ClassVar = ("text", "type", "note_type")

    text: str = ""
    type: BaseType = "Context"
    note_type: str = ""


class ExampleForm(EntryForm, frozen=True):
    """An example."""

    content_type: ClassVar = ExampleContent
    own_fields: ClassVar = ("input", "output", "score")

    input: str = ""
    output: str = ""
    score: int = 100


class EntryQuery(BaseModel, frozen=True):
    """Filter of a list of notes or examples; an empty field means all."""

    text: str = ""
    type: BaseType | Literal[""] = ""
    scope: ScopeKind | Literal[""] = ""
    user: str = ""
    company: str = ""
    status: EntryStatus | Literal[""] = ""
    sort: EntrySort = "updated"
    page: int = Field(default=1, ge=1, le=1_000_000)

    def where(self) -> EntryFilter:
        """Return the filter; dates and scores are sorted in descending order."""
        return EntryFilter(
            text=self.text,
            type=self.type or None,
            scope_kind=self.scope or None,
            user=self.user or None,
            company=self.company or None,
            status=self.status or None,
            sort=self.sort,
            descending=self.sort in ("score", "updated", "created"),
            limit=PAGE_SIZE,
            offset=PAGE_SIZE * (self.page - 1),
        )


class NoteTypeForm(BaseModel, frozen=True):
    """A note type."""

    name: str = ""
    type: BaseType = "Context"
    priority: int = Field(default=50, lt=2**31)
    description: str = ""

    def note_type(self) -> NoteType:
        """Return the note type."""
        return NoteType(**self.model_dump())


_INJECTION_FIELDS = {field.name for field in fields(InjectionOptions)}


class AgentForm(BaseModel, frozen=True):
    """Settings of an agent. Browsers do not send an unticked box, so the default is False."""

    inject_notes: bool = False
    max_notes: int = 5
    note_strategy: NoteStrategy = "Relevant"
    inject_examples: bool = False
    max_examples: int = 3
    example_strategy: ExampleStrategy = "Semantic"
    budget_tokens: int = 1_500
    version: SeenVersion = 0

    def injecting(self) -> InjectionOptions:
        """Return the settings without agent and version."""
        return InjectionOptions(**self.model_dump(include=_INJECTION_FIELDS))

    def settings(self, agent: str) -> AgentSettings:
        """Return the settings of the agent, with the version that the form displayed."""
        return AgentSettings(agent=agent, version=self.version, **vars(self.injecting()))


class PreviewSettingsForm(AgentForm, frozen=True):
    """Settings to preview, with the user, company and task of the preview."""

    user: str = ""
    company: str = ""
    task: str = ""
