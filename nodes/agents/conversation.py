"""What an agent and its model have said so far, kept so that another process can go on with it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from contracts.chat import Message
from contracts.model_access import AgentUsage


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """A conversation at a moment at which no tool is at work, and what it took so far.

    `messages` are those of an agent that calls the model itself; a program in the sandbox keeps
    its own there, as `session`. `told` is what it is told when it goes on; empty: that it was
    interrupted.
    """

    model: str = ""
    messages: tuple[Message, ...] = ()
    session: str = ""
    told: str = ""
    spent: AgentUsage = field(default_factory=AgentUsage)
    elapsed_s: float = 0.0


StillCurrent = Callable[[], bool]
"""Whether nothing was done since the conversation was as it is to be kept."""

SaveConversation = Callable[[Conversation, StillCurrent], None]
"""Keeps a conversation, and the files as they are with it; asks `Still` once it has the files."""


class ConversationStore(NamedTuple):
    """Where conversations are kept, each under its node's name; `end` takes a finished one."""

    load: Callable[[str], Conversation | None]
    save: Callable[[str, Conversation, StillCurrent], None]
    finish: Callable[[str, Conversation], None]


def redacted_store(talks: ConversationStore, redact: Callable[[str], str]) -> ConversationStore:
    """The same, which keeps no secret."""

    def keep(node: str, talk: Conversation, still: StillCurrent) -> None:
        talks.save(node, without(talk), still)

    def without(talk: Conversation) -> Conversation:
        return replace(talk, messages=tuple(map(bare, talk.messages)))

    def bare(message: Message) -> Message:
        calls = (replace(call, arguments=redact(call.arguments)) for call in message.tool_calls)
        return replace(message, content=redact(message.content), tool_calls=tuple(calls))

    return ConversationStore(talks.load, keep, lambda node, talk: talks.finish(node, without(talk)))


def _nothing(_: str) -> Conversation | None:
    return None


def _forget(_: str, __: Conversation, ___: StillCurrent) -> None:
    pass


def _forget_end(_: str, __: Conversation) -> None:
    pass


NO_CONVERSATIONS = ConversationStore(_nothing, _forget, _forget_end)
"""Keeps nothing."""
