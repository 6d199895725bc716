"""Settings of each agent: how many notes and examples it is given, and by which strategy."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Literal, get_args

from pydantic import TypeAdapter
from sqlalchemy import Connection, insert, select, update

from memory.errors import AgentUnknown, EntryInvalid, StaleUpdate
from memory.notes.content import match_word
from memory.tables import agent_settings

NoteStrategy = Literal["Relevant", "Recent", "All"]
ExampleStrategy = Literal["Semantic", "Recent", "Rated"]

_RANGES = {"max_notes": (1, 20), "max_examples": (1, 10), "budget_tokens": (0, 100_000)}


@dataclass(frozen=True, kw_only=True)
class InjectionOptions:
    """How many notes and examples a prompt is given. A strategy decides which come first."""

    inject_notes: bool = True
    max_notes: int = 5
    note_strategy: NoteStrategy = "Relevant"
    inject_examples: bool = True
    max_examples: int = 3
    example_strategy: ExampleStrategy = "Semantic"
    budget_tokens: int = 1_500
    """Limit for notes and examples together. An entry that does not fit is omitted whole."""


@dataclass(frozen=True, kw_only=True)
class AgentSettings(InjectionOptions):
    """Settings of one agent. Version 0 means the defaults."""

    agent: str
    version: int = 0
    updated_at: datetime | None = None


_OPTIONS = TypeAdapter(InjectionOptions)


def read_settings(connection: Connection, agent: str) -> AgentSettings:
    """Return the agent's settings, or the defaults."""
    of_agent = agent_settings.c.agent == agent
    row = connection.execute(select(agent_settings).where(of_agent)).first()
    if row is None:
        return AgentSettings(agent=agent)
    options = _OPTIONS.validate_python(row.settings)
    return AgentSettings(
        agent=agent, version=row.version, updated_at=row.updated_at, **asdict(options)
    )


def list_settings(connection: Connection) -> list[AgentSettings]:
    """Return the settings of all agents that have any, by name."""
    names = select(agent_settings.c.agent).order_by(agent_settings.c.agent)
    return [read_settings(connection, name) for name in connection.execute(names).scalars().all()]


def save_settings(connection: Connection, wanted: AgentSettings, at: datetime) -> AgentSettings:
    """Save and return the settings, if the stored version is still `wanted.version`.

    Raises:
        EntryInvalid: a number is out of range, or a strategy is unknown.
        StaleUpdate: the settings were changed since; nothing is written.
    """
    wanted = check_settings(wanted)
    stored = read_settings(connection, wanted.agent)
    if stored.version != wanted.version:
        raise StaleUpdate(
            f"the settings of agent {wanted.agent!r} are at version {stored.version} now; your "
            f"change is based on version {wanted.version} and was not saved. Read them again"
        )
    options = {name: getattr(wanted, name) for name in InjectionOptions.__dataclass_fields__}
    row = {"version": wanted.version + 1, "settings": options, "updated_at": at}
    of_agent = agent_settings.c.agent == wanted.agent
    updated = connection.execute(update(agent_settings).where(of_agent).values(**row))
    if updated.rowcount == 0:
        connection.execute(insert(agent_settings).values(agent=wanted.agent, **row))
    return read_settings(connection, wanted.agent)


def check_settings(wanted: AgentSettings) -> AgentSettings:
    """Return the settings with both strategies in their canonical spelling.

    Raises:
        EntryInvalid: names the number that is out of range, or lists the strategies.
    """
    for name, (least, most) in _RANGES.items():
        number = getattr(wanted, name)
        if not least <= number <= most:
            raise EntryInvalid(f"{name} is {number}; it must be from {least} to {most}")
    return replace(
        wanted,
        note_strategy=match_word("note strategy", wanted.note_strategy, get_args(NoteStrategy)),
        example_strategy=match_word(
            "example strategy", wanted.example_strategy, get_args(ExampleStrategy)
        ),
    )


def check_agent(agent: str, agents: Collection[str]) -> str:
    """Return the agent's name.

    Raises:
        AgentUnknown: `agents` does not contain it.
    """
    if agent not in agents:
        raise AgentUnknown(f"no agent {agent!r}; known agents: {', '.join(sorted(agents))}")
    return agent
