"""What the forms of notes, examples and agents send, and what is made of it."""

from dataclasses import replace
from datetime import UTC, date, datetime, time
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from app.web.raw_form import SeenVersion
from memory.notes.agent_settings import (
    AgentSettings,
    ExampleStrategy,
    InjectionOptions,
    NoteStrategy,
)
from memory.notes.types import (
    BaseType,
    Entry,
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
"""Rows of a page."""

Day = Annotated[date | None, BeforeValidator(lambda given: given or None)]
"""A day of the calendar; an empty field is none."""


class ScopeForm(BaseModel, frozen=True):
    """Whom something is for; an empty field means any."""

    agent: str = ""
    user: str = ""
    company: str = ""

    def scope(self) -> Scope:
        """The same as the notebook knows it."""
        return Scope(agent=self.agent or None, user=self.user or None, company=self.company or None)


class EntryFieldsForm(ScopeForm, frozen=True):
    """What people decide about a note or an example; `version` is the one that they saw."""

    status: EntryStatus = "Active"
    until: Day = None
    protection: Protection = "Normal"
    source_run: str = ""
    version: SeenVersion = 0

    def expires_at(self) -> datetime | None:
        """The end of the last day that it holds."""
        return datetime.combine(self.until, time.max, UTC) if self.until else None


def _kept(one: Entry) -> dict[str, object]:
    """What `GovernedForm` says of what is kept."""
    return {
        "agent": one.scope.agent or "",
        "user": one.scope.user or "",
        "company": one.scope.company or "",
        "status": one.status,
        "until": one.expires_at.date() if one.expires_at else None,
        "protection": one.protection,
        "source_run": one.source_run or "",
        "version": one.version,
    }


class NoteForm(EntryFieldsForm, frozen=True):
    """A note as the form sends it."""

    text: str = ""
    type: BaseType = "Context"
    note_type: str = ""

    def content(self) -> NoteContent:
        """The note that is meant."""
        return NoteContent(
            text=_lines(self.text),
            type=self.type,
            note_type=self.note_type,
            scope=self.scope(),
            status=self.status,
            expires_at=self.expires_at(),
            protection=self.protection,
        )

    @classmethod
    def of(cls, one: Entry) -> "NoteForm":
        """The form with what is kept."""
        names = ("text", "type", "note_type")
        return cls.model_validate(_kept(one) | {name: getattr(one, name) for name in names})


class ExampleForm(EntryFieldsForm, frozen=True):
    """An example as the form sends it."""

    input: str = ""
    output: str = ""
    score: int = 100

    def content(self) -> ExampleContent:
        """The example that is meant."""
        return ExampleContent(
            input=_lines(self.input),
            output=_lines(self.output),
            score=self.score,
            scope=self.scope(),
            status=self.status,
            expires_at=self.expires_at(),
            protection=self.protection,
        )

    @classmethod
    def of(cls, one: Entry) -> "ExampleForm":
        """The form with what is kept."""
        names = ("input", "output", "score")
        return cls.model_validate(_kept(one) | {name: getattr(one, name) for name in names})


EntryForm = NoteForm | ExampleForm


def apply_form(one: Entry, form: EntryForm) -> Entry:
    """What is kept with the form's content, as changed from the version that the person saw."""
    return replace(one, **vars(form.content()), version=form.version)


class EntryListQuery(BaseModel, frozen=True):
    """What a list of notes or examples is asked for; empty means all."""

    text: str = ""
    scope: ScopeKind | Literal[""] = ""
    status: EntryStatus | Literal[""] = ""
    page: int = Field(default=1, ge=1, le=1_000_000)

    def where(self, sort: EntrySort, *, type_: BaseType | None = None) -> EntryFilter:
        """The same as the notebook knows it: dates and scores from above, words from A."""
        return EntryFilter(
            text=self.text,
            type=type_,
            scope_kind=self.scope or None,
            status=self.status or None,
            sort=sort,
            descending=sort in ("score", "updated", "created"),
            limit=PAGE_SIZE,
            offset=PAGE_SIZE * (self.page - 1),
        )


class NoteTypeForm(BaseModel, frozen=True):
    """A note type as the form sends it."""

    name: str = ""
    type: BaseType = "Context"
    priority: int = Field(default=50, lt=2**31)
    description: str = ""

    def note_type(self) -> NoteType:
        """The note type that is meant."""
        return NoteType(**self.model_dump())


_INJECTING = set(InjectionOptions.__dataclass_fields__)


class AgentForm(BaseModel, frozen=True):
    """What an agent is given; a box that is not ticked is not sent."""

    inject_notes: bool = False
    max_notes: int = 5
    note_strategy: NoteStrategy = "Relevant"
    inject_examples: bool = False
    max_examples: int = 3
    example_strategy: ExampleStrategy = "Semantic"
    budget_tokens: int = 1_500
    version: SeenVersion = 0

    def injecting(self) -> InjectionOptions:
        """The same as the notebook knows it."""
        return InjectionOptions(**self.model_dump(include=_INJECTING))

    def settings(self, agent: str) -> AgentSettings:
        """The settings of this agent, as changed from the version that the person saw."""
        return AgentSettings(agent=agent, version=self.version, **vars(self.injecting()))


class PreviewSettingsForm(AgentForm, frozen=True):
    """Settings to try out, and for whom and what."""

    user: str = ""
    company: str = ""
    task: str = ""


def _lines(text: str) -> str:
    """Browsers end lines with CR LF."""
    return text.replace("\r\n", "\n")
