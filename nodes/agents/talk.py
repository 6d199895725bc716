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
    its own there, as `session`. `told` is what it is told when it goes on; empty: that it was
    interrupted.
    """

    model: str = ""
    messages: tuple[Message, ...] = ()
    session: str = ""
    told: str = ""
    spent: Spent = field(default_factory=Spent)
    elapsed_s: float = 0.0


Still = Callable[[], bool]
"""Whether nothing was done since the conversation was as it is to be kept."""

KeepTalk = Callable[[Talk, Still], None]
"""Keeps a conversation, and the files as they are with it; asks `Still` once it has the files."""


class Talks(NamedTuple):
    """Where conversations are kept, each under its node's name; `end` takes a finished one."""

    read: Callable[[str], Talk | None]
    keep: Callable[[str, Talk, Still], None]
    end: Callable[[str, Talk], None]


def redacting(talks: Talks, redact: Callable[[str], str]) -> Talks:
    """The same, which keeps no secret."""

    def keep(node: str, talk: Talk, still: Still) -> None:
        talks.keep(node, without(talk), still)

    def without(talk: Talk) -> Talk:
        return replace(talk, messages=tuple(map(bare, talk.messages)))

    def bare(message: Message) -> Message:
        calls = (replace(call, arguments=redact(call.arguments)) for call in message.tool_calls)
        return replace(message, content=redact(message.content), tool_calls=tuple(calls))

    return Talks(talks.read, keep, lambda node, talk: talks.end(node, without(talk)))


def _nothing(_: str) -> Talk | None:
    return None


def _forget(_: str, __: Talk, ___: Still) -> None:
    pass


def _forget_end(_: str, __: Talk) -> None:
    pass


NO_TALKS = Talks(_nothing, _forget, _forget_end)
"""Keeps nothing."""
