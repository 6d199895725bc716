"""Requests to models and answers in parts: between the wire formats of agents and litellm."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from contracts.chat import Message, Reply, Usage
from contracts.json import as_mapping
from contracts.tool import ToolCall

Json = Mapping[str, object]

STREAM_TIMEOUT_S = 180.0
"""Longest silence of a streaming model before its request fails."""

_IMAGE_CHARACTERS = 6_400
"""Characters that an image counts as: four for each of the 1,600 tokens of a usual one."""


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One request. Messages and tools have OpenAI's form, with more kinds of content.

    `options` are arguments of litellm's `completion`. `timeout_s` limits the whole answer,
    or with `stream` each silence of the model.
    """

    messages: Sequence[Json]
    tools: Sequence[Json] = ()
    options: Json = field(default_factory=lambda: MappingProxyType({}))
    stream: bool = False
    timeout_s: float = 600.0

    @property
    def new_messages(self) -> Sequence[Json]:
        """The messages after the last one of the assistant."""
        for place in range(len(self.messages), 0, -1):
            if self.messages[place - 1].get("role") == "assistant":
                return self.messages[place:]
        return self.messages

    @property
    def characters(self) -> int:
        """Characters of all messages and tools; four of them are about one token."""
        return sum(map(_characters, (*self.messages, *self.tools)))

    @property
    def tool_names(self) -> list[str]:
        return [str(as_mapping(tool.get("function")).get("name", "")) for tool in self.tools]


def _characters(message: Json) -> int:
    content = message.get("content")
    if not isinstance(content, list):
        return len(json.dumps(message))
    # Providers bill an image by its pixels, not by the length of its base64 text.
    rest = [part for part in content if not as_mapping(part.get("image_url"))]
    images = len(content) - len(rest)
    return len(json.dumps({**message, "content": rest})) + _IMAGE_CHARACTERS * images


@dataclass(frozen=True)
class TextPart:
    """Some of the text."""

    text: str


@dataclass(frozen=True)
class ThinkingPart:
    """Some of the model's thinking, or the signature after it, or a redacted block."""

    text: str = ""
    signature: str = ""
    redacted: str = ""

    @property
    def ends_block(self) -> bool:
        """Whether the next thinking part begins another block."""
        return bool(self.signature or self.redacted)


@dataclass(frozen=True)
class ToolCallPart:
    """One complete tool call."""

    call: ToolCall


@dataclass(frozen=True)
class EndPart:
    """Why the model stopped, what the answer cost, and which model gave it, if that is known."""

    stop_reason: str
    usage: Usage
    model: str = ""


@dataclass(frozen=True)
class WaitPart:
    """A sign of life while a person's decision is awaited."""


AnswerPart = TextPart | ThinkingPart | ToolCallPart | EndPart | WaitPart


@dataclass
class ReceivedAnswer:
    """The parts received so far. Text beyond `max_text` is counted but not kept."""

    max_text: int | None = None
    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    characters: int = 0
    end: EndPart | None = None

    def add(self, part: AnswerPart) -> None:
        """Add the next part."""
        match part:
            case TextPart(text):
                if self.max_text is None or self.characters < self.max_text:
                    self.texts.append(text)
                self.characters += len(text)
            case ThinkingPart(text):
                self.characters += len(text)
            case ToolCallPart(call):
                self.calls.append(call)
                self.characters += len(call.arguments)
            case EndPart():
                self.end = part
            case WaitPart():
                pass

    @property
    def message(self) -> Message:
        text = "".join(self.texts)
        return Message(role="assistant", content=text, tool_calls=tuple(self.calls))


def reply_parts(reply: Reply) -> tuple[AnswerPart, ...]:
    """Return a complete reply as parts."""
    message = reply.message
    text = (TextPart(message.content),) if message.content else ()
    calls = (ToolCallPart(call) for call in message.tool_calls)
    return (*text, *calls, EndPart(reply.stop_reason, reply.usage))


def collect(parts: Iterable[AnswerPart]) -> tuple[Message, EndPart]:
    """Return the complete message and its end."""
    answer = ReceivedAnswer()
    for part in parts:
        answer.add(part)
    return answer.message, answer.end or EndPart("stop", Usage())


class WireFormat(NamedTuple):
    """Reads requests and writes answers and errors. The text arguments are model and message."""

    read_request: Callable[[bytes], ModelRequest]
    response_body: Callable[[Iterator[AnswerPart], str], Json]
    response_events: Callable[[Iterator[AnswerPart], str], Iterator[bytes]]
    error_body: Callable[[str, int], Json]
    error_event: Callable[[str], bytes]


def sse_event(data: Mapping[str, object], *, name: str | None = None) -> bytes:
    """Return one server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
