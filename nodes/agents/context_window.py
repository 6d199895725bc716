"""Keeps a conversation shorter than the model's context, by leaving out its oldest parts.

Old results of tools go first, then whole turns. What is not left out: the task, other words of
the user, the model's plan and its last turn. The model is not asked for a summary: agents whose
old results are left out solve as many tasks ("The Complexity Trap", Lindenbauer et al. 2025), and
a summary could pass on instructions of untrusted text as the model's own words.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from contracts.chat import ChatRequest, Message, Reply
from contracts.tool import Tool
from nodes.text import truncate_middle

_DEFAULT_TOKENS = 128_000
"""Context of a model of which nothing is known."""

_TOKENS_PER_CHARACTER = 0.25
"""At least this many, until the provider has counted the tokens of a request."""

_FULL = 0.75
"""The part of the context at which a conversation is shortened; the rest is for the answer."""

_SHORTENED = 0.5
"""The part that a shortened conversation may fill, so that many turns follow before the next."""

_LEFT_OUT = "(this result was left out to make room: call the tool again if you need it)"
_NOTE = "(Earlier turns were left out to make room; the files are as you left them.)"
_PLAN = "Your plan was:"
_MIN_RESULT = 500
_CHECKLIST = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)])[ \t]+\[[ xX]\][^\n]*", re.MULTILINE)


class ContextWindow:
    """The size of the model's context, and how many tokens the characters of this agent take."""

    def __init__(self, tokens: int | None, tools: Sequence[Tool]) -> None:
        self._tokens = float(tokens or _DEFAULT_TOKENS)
        self._tool_characters = sum(
            len(tool.description) + len(json.dumps(dict(tool.parameters))) for tool in tools
        )
        self._tokens_per_character = _TOKENS_PER_CHARACTER

    def _size(self, messages: Iterable[Message]) -> int:
        return self._tool_characters + _characters(messages)

    def count(self, request: ChatRequest, reply: Reply) -> None:
        """Learn from the provider's count how many tokens a character takes."""
        usage = reply.usage
        counted = usage.input + usage.cache_read + usage.cache_write
        measured = counted / self._size(request.messages)
        self._tokens_per_character = max(_TOKENS_PER_CHARACTER, measured)

    def overflowed(self, request: ChatRequest) -> None:
        """Learn that this request was longer than the model's context."""
        size = self._size(request.messages) * self._tokens_per_character
        self._tokens = min(self._tokens, size) * _FULL

    def fitting(self, messages: list[Message]) -> list[Message]:
        """Return the messages, without their oldest parts if they would fill the context."""
        room = self._tokens / self._tokens_per_character
        if self._size(messages) <= room * _FULL:
            return messages
        return shortened(messages, round(room * _SHORTENED) - self._tool_characters)


def shortened(messages: list[Message], room: int) -> list[Message]:
    """Return the conversation with at most `room` characters, if that is possible.

    The first two messages are the agent's instructions and the task.
    """
    turns = [i for i, message in enumerate(messages) if i > 1 and message.role == "assistant"]
    last = turns[-1] if turns else len(messages)
    shorter = list(messages)
    for place in range(2, last):
        if _characters(shorter) <= room:
            return shorter
        shorter[place] = _without_result(shorter[place])
    for turn in turns:
        from_turn = _without_turns_before(turn, shorter)
        if _characters(from_turn) <= room:
            return from_turn
    return _with_short_results(_without_turns_before(last, shorter), room)


def _without_result(message: Message) -> Message:
    is_long = message.role == "tool" and len(message.content) > len(_LEFT_OUT)
    return replace(message, content=_LEFT_OUT) if is_long else message


def _without_turns_before(turn: int, messages: list[Message]) -> list[Message]:
    """Leave out the model's turns before an index, but no word of the user, and not the plan."""
    before, after = messages[2:turn], messages[turn:]
    words = [m for m in before if m.role == "user" and not m.content.startswith(_NOTE)]
    if words == before:
        return messages
    plan = "" if _plan(after) else _plan(before)
    note = f"{_NOTE}\n{_PLAN}\n{plan}" if plan else _NOTE
    return [*messages[:2], *words, Message(role="user", content=note), *after]


def _plan(messages: Iterable[Message]) -> str:
    """Return the model's last checklist; empty if there is none."""
    own = (m for m in messages if m.role == "assistant" or m.content.startswith(_NOTE))
    plans = ("\n".join(_CHECKLIST.findall(m.content)) for m in own)
    return ["", *filter(None, plans)][-1]


def _with_short_results(messages: list[Message], room: int) -> list[Message]:
    """Shorten the results of the last turn, each to the same size."""
    results = [m for m in messages if m.role == "tool"]
    others = _characters(m for m in messages if m.role != "tool")
    size = max(_MIN_RESULT, (room - others) // max(1, len(results)))
    return [
        replace(m, content=truncate_middle(m.content, size)) if m.role == "tool" else m
        for m in messages
    ]


def _characters(messages: Iterable[Message]) -> int:
    return sum(
        len(m.content) + sum(len(call.name) + len(call.arguments) for call in m.tool_calls)
        for m in messages
    )
