"""What each agent is given of the notebook: how much, chosen how, within how many tokens."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Literal, get_args

from pydantic import TypeAdapter
from sqlalchemy import Connection, insert, select, update

from memory.errors import AgentUnknown, NoteInvalid, StaleUpdate
from memory.notes.content import match_word
from memory.notes.tables import agent_settings

NoteStrategy = Literal["Relevant", "Recent", "All"]
ExampleStrategy = Literal["Semantic", "Recent", "Rated"]

MAX_NOTES = 20
MAX_EXAMPLES = 10
MAX_BUDGET = 100_000


@dataclass(frozen=True, kw_only=True)
class InjectionOptions:
    """What a prompt is given. The strategies say which notes and examples come first."""

    inject_notes: bool = True
    max_notes: int = 5
    note_strategy: NoteStrategy = "Relevant"
    inject_examples: bool = True
    max_examples: int = 3
    example_strategy: ExampleStrategy = "Semantic"
    budget_tokens: int = 1_500
    """Notes and examples together never take more; what does not fit whole is left out."""


@dataclass(frozen=True, kw_only=True)
class AgentSettings(InjectionOptions):
    """The settings of one agent; version 0 means that nobody changed them yet."""

    agent: str
    version: int = 0
    updated_at: datetime | None = None


_INJECTING = TypeAdapter(InjectionOptions)


def read_settings(connection: Connection, agent: str) -> AgentSettings:
    """The agent's settings, or the defaults."""
    mine = agent_settings.c.agent == agent
    row = connection.execute(select(agent_settings).where(mine)).first()
    if row is None:
        return AgentSettings(agent=agent)
    kept = _INJECTING.validate_python(row.settings)
    return AgentSettings(
        agent=agent, version=row.version, updated_at=row.updated_at, **asdict(kept)
    )


def save_settings(connection: Connection, wanted: AgentSettings, at: datetime) -> AgentSettings:
    """Keep these settings, if the agent's are still at the version that they were read at.

    Raises:
        NoteInvalid: a number is out of range, or a strategy is not known.
        StaleUpdate: somebody else changed them in between; nothing is written.
    """
    wanted = check_settings(wanted)
    now = read_settings(connection, wanted.agent)
    if now.version != wanted.version:
        raise StaleUpdate(
            f"the settings of agent {wanted.agent!r} are at version {now.version} by now; your "
            f"change was made from version {wanted.version} and is not kept. Look at them again"
        )
    own = {name: getattr(wanted, name) for name in InjectionOptions.__dataclass_fields__}
    row = {"version": wanted.version + 1, "settings": own, "updated_at": at}
    mine = agent_settings.c.agent == wanted.agent
    changed = connection.execute(update(agent_settings).where(mine).values(**row))
    if changed.rowcount == 0:
        connection.execute(insert(agent_settings).values(agent=wanted.agent, **row))
    return read_settings(connection, wanted.agent)


def check_settings(wanted: AgentSettings) -> AgentSettings:
    """The same with strategies in their own spelling.

    Raises:
        NoteInvalid: names the number that is out of range, or the strategies there are.
    """
    _in_range("max_notes", wanted.max_notes, 1, MAX_NOTES)
    _in_range("max_examples", wanted.max_examples, 1, MAX_EXAMPLES)
    _in_range("budget_tokens", wanted.budget_tokens, 0, MAX_BUDGET)
    return replace(
        wanted,
        note_strategy=match_word("note strategy", wanted.note_strategy, get_args(NoteStrategy)),
        example_strategy=match_word(
            "example strategy", wanted.example_strategy, get_args(ExampleStrategy)
        ),
    )


def check_agent(agent: str, agents: Collection[str]) -> str:
    """The agent's name.

    Raises:
        AgentUnknown: it is none of these.
    """
    if agent not in agents:
        raise AgentUnknown(f"no agent {agent!r}; there are {', '.join(sorted(agents))}")
    return agent


def _in_range(what: str, given: int, least: int, most: int) -> None:
    if not least <= given <= most:
        raise NoteInvalid(f"{what} is {given}; it may be from {least} to {most}")
