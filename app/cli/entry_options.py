"""Options of notes and examples: whom they are for, how long they hold, which are meant."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from app.terminal.options import MAX_ROWS
from contracts.errors import OptionInvalid

if TYPE_CHECKING:
    from memory.notes.types import EntryFields, Example, Note

    E = TypeVar("E", Note, Example)

Ref = Annotated[str, typer.Argument(help="An id, or the beginning of one.")]
Agent = Annotated[str | None, typer.Option(help="Only for this agent.")]
User = Annotated[str | None, typer.Option(help="Only for this user.")]
Company = Annotated[str | None, typer.Option(help="Only for this company.")]
Pending = Annotated[bool, typer.Option("--pending", help="Not given to anybody yet.")]
Days = Annotated[
    float | None, typer.Option("--provisional", metavar="DAYS", min=0.001, help="Holds so long.")
]
Protected = Annotated[
    bool | None, typer.Option("--protected/--unprotected", help="Only a person may revoke it.")
]
File = Annotated[Path | None, typer.Option(help="The content as JSON; the rest stays.")]
Version = Annotated[int | None, typer.Option(help="Refuse when it is at another version.")]

Undo = Annotated[bool, typer.Option("--undo", help="Take the last change back.")]
StatusFilter = Annotated[str | None, typer.Option(help="Pending, Active or Revoked.")]
ContainsText = Annotated[str, typer.Option(help="With all of these words.")]
FromRun = Annotated[str | None, typer.Option(help="From this run.")]
Limit = Annotated[int | None, typer.Option(min=0, max=MAX_ROWS)]


def new_entry_fields(
    agent: str | None,
    user: str | None,
    company: str | None,
    *,
    pending: bool,
    days: float | None,
    protected: bool | None,
) -> "EntryFields":
    """What the options say of a new note or example besides its words.

    Raises:
        OptionInvalid: whom it is for is named by nothing, as of a variable that is not set.
    """
    from memory.notes.types import EntryFields
    from memory.scope import Scope

    for name, value in (("agent", agent), ("user", user), ("company", company)):
        if value is not None and not value.strip():
            raise OptionInvalid(f"--{name} is empty: leave it out to keep this for any {name}")
    return EntryFields(
        scope=Scope(agent=agent, user=user, company=company),
        status="Pending" if pending else "Active",
        expires_at=expiry(days),
        protection="Protected" if protected else "Normal",
    )


def with_options(
    entry: "E",
    agent: str | None,
    user: str | None,
    company: str | None,
    *,
    days: float | None,
    protected: bool | None,
) -> "E":
    """The entry with what the options say; None leaves as it is, an empty scope is cleared."""
    given = {"agent": agent, "user": user, "company": company}
    named = {name: value or None for name, value in given.items() if value is not None}
    wanted = replace(entry, scope=replace(entry.scope, **named))
    if days is not None:
        wanted = replace(wanted, expires_at=expiry(days))
    if protected is not None:
        wanted = replace(wanted, protection="Protected" if protected else "Normal")
    return wanted


def expiry(days: float | None) -> datetime | None:
    """When something provisional ends.

    Raises:
        OptionInvalid: no calendar goes so far.
    """
    try:
        return None if days is None else datetime.now(UTC) + timedelta(days=days)
    except OverflowError as error:
        raise OptionInvalid(f"--provisional {days:g} days: no calendar goes so far") from error
