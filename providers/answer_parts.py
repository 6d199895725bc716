"""A model's answer as it arrives: text at once, tool calls whole, the end last."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from contracts.chat import Message, Reply, Usage
from contracts.json import as_mappings, text_at
from contracts.tool import ToolCall

MAX_RECORDED_TEXT = 4_000_000
"""Characters of text that one recorded reply keeps: 50 MB may pass, not stay."""


@dataclass(frozen=True)
class TextPart:
    """A bit of what the model says."""

    text: str


@dataclass(frozen=True)
class ThinkingPart:
    """A bit of what it thinks; the signature comes by itself, after the last bit.

    `redacted` is a thought that nobody may read, whole.
    """

    text: str = ""
    signature: str = ""
    redacted: str = ""

    @property
    def ends_block(self) -> bool:
        """Whether this ends a thought."""
        return bool(self.signature or self.redacted)


def signatures(blocks: object) -> Iterator[ThinkingPart]:
    """The signatures and redacted thoughts in litellm's `thinking_blocks`."""
    for block in as_mappings(blocks):
        if signature := text_at(block, "signature"):
            yield ThinkingPart(signature=signature)
        if data := text_at(block, "data"):
            yield ThinkingPart(redacted=data)


@dataclass(frozen=True)
class ToolCallPart:
    """A tool call, whole."""

    call: ToolCall


@dataclass(frozen=True)
class EndPart:
    """Why it stopped, and what it cost."""

    stop_reason: str
    usage: Usage


@dataclass(frozen=True)
class WaitPart:
    """A moment of waiting, for a person's decision: nothing is said, but the line is kept open."""


AnswerPart = TextPart | ThinkingPart | ToolCallPart | EndPart | WaitPart


@dataclass
class ReceivedAnswer:
    """What was heard of an answer so far, in bounded space."""

    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    characters: int = 0
    end: EndPart | None = None

    def add(self, piece: AnswerPart) -> None:
        """Remember a piece; text beyond `KEPT_TEXT` is only counted."""
        match piece:
            case TextPart(text):
                if self.characters < MAX_RECORDED_TEXT:
                    self.texts.append(text)
                self.characters += len(text)
            case ThinkingPart(text):
                self.characters += len(text)
            case ToolCallPart(call):
                self.calls.append(call)
                self.characters += len(call.arguments)
            case EndPart():
                self.end = piece
            case WaitPart():
                pass

    @property
    def message(self) -> Message:
        text = "".join(self.texts)
        return Message(role="assistant", content=text, tool_calls=tuple(self.calls))


def reply_parts(reply: Reply) -> tuple[AnswerPart, ...]:
    """A whole reply, in pieces."""
    said = reply.message
    text = (TextPart(said.content),) if said.content else ()
    calls = (ToolCallPart(call) for call in said.tool_calls)
    return (*text, *calls, EndPart(reply.stop_reason, reply.usage))


def collect(pieces: Iterable[AnswerPart]) -> tuple[Message, EndPart]:
    """A whole answer from its pieces; it is one that ended."""
    texts: list[str] = []
    calls: list[ToolCall] = []
    end = EndPart("stop", Usage())
    for piece in pieces:
        match piece:
            case TextPart(text):
                texts.append(text)
            case ToolCallPart(call):
                calls.append(call)
            case EndPart():
                end = piece
            case ThinkingPart() | WaitPart():
                pass
    message = Message(role="assistant", content="".join(texts), tool_calls=tuple(calls))
    return message, end
