"""What an agent and its model have said so far, kept so that another process can go on with it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from contracts.chat import Message
from contracts.gate import Spent


@dataclass(frozen=True, kw_only=True)
class Talk:
    """A conversation at a moment at which no tool is at work, and what it took so far.

    `messages` are those of an agent that calls the model itself; a program in the sandbox keeps
    its own there, as `session`.
    """

    model: str = ""
    messages: tuple[Message, ...] = ()
    session: str = ""
    spent: Spent = field(default_factory=Spent)
    elapsed_s: float = 0.0


Still = Callable[[], bool]
"""Whether nothing was done since the conversation was as it is to be kept."""

KeepTalk = Callable[[Talk, Still], None]
"""Keeps a conversation, and the files as they are with it; asks `Still` once it has the files."""


class Talks(NamedTuple):
    """Where conversations are kept, each under its node's name."""

    read: Callable[[str], Talk | None]
    keep: Callable[[str, Talk, Still], None]


def redacting(talks: Talks, redact: Callable[[str], str]) -> Talks:
    """The same, which keeps no secret."""

    def keep(node: str, talk: Talk, still: Still) -> None:
        talks.keep(node, replace(talk, messages=tuple(map(bare, talk.messages))), still)

    def bare(message: Message) -> Message:
        calls = (replace(call, arguments=redact(call.arguments)) for call in message.tool_calls)
        return replace(message, content=redact(message.content), tool_calls=tuple(calls))

    return Talks(talks.read, keep)


def _nothing(_: str) -> Talk | None:
    return None


def _forget(_: str, __: Talk, ___: Still) -> None:
    pass


NO_TALKS = Talks(_nothing, _forget)
"""Keeps nothing."""
