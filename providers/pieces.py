"""A model's answer as it arrives: text at once, tool calls whole, the end last."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from contracts.chat import Message, Reply, Usage
from contracts.json import mappings_in, text_in
from contracts.tool import ToolCall

KEPT_TEXT = 4_000_000
"""Characters of text that one recorded reply keeps: 50 MB may pass, not stay."""


@dataclass(frozen=True)
class Text:
    """A bit of what the model says."""

    text: str


@dataclass(frozen=True)
class Thought:
    """A bit of what it thinks; the signature comes by itself, after the last bit.

    `redacted` is a thought that nobody may read, whole.
    """

    text: str = ""
    signature: str = ""
    redacted: str = ""

    @property
    def last(self) -> bool:
        """Whether this ends a thought."""
        return bool(self.signature or self.redacted)


def thoughts(blocks: object) -> Iterator[Thought]:
    """The signatures and redacted thoughts in litellm's `thinking_blocks`."""
    for block in mappings_in(blocks):
        if signature := text_in(block, "signature"):
            yield Thought(signature=signature)
        if data := text_in(block, "data"):
            yield Thought(redacted=data)


@dataclass(frozen=True)
class Call:
    """A tool call, whole."""

    call: ToolCall


@dataclass(frozen=True)
class End:
    """Why it stopped, and what it cost."""

    stop_reason: str
    usage: Usage


@dataclass(frozen=True)
class Wait:
    """A moment of waiting, for a person's decision: nothing is said, but the line is kept open."""


Piece = Text | Thought | Call | End | Wait


@dataclass
class Heard:
    """What was heard of an answer so far, in bounded space."""

    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    size: int = 0
    end: End | None = None

    def add(self, piece: Piece) -> None:
        """Remember a piece; text beyond `KEPT_TEXT` is only counted."""
        match piece:
            case Text(text):
                if self.size < KEPT_TEXT:
                    self.texts.append(text)
                self.size += len(text)
            case Thought(text):
                self.size += len(text)
            case Call(call):
                self.calls.append(call)
                self.size += len(call.arguments)
            case End():
                self.end = piece
            case Wait():
                pass

    @property
    def message(self) -> Message:
        text = "".join(self.texts)
        return Message(role="assistant", content=text, tool_calls=tuple(self.calls))


def pieces_of(reply: Reply) -> tuple[Piece, ...]:
    """A whole reply, in pieces."""
    said = reply.message
    text = (Text(said.content),) if said.content else ()
    calls = (Call(call) for call in said.tool_calls)
    return (*text, *calls, End(reply.stop_reason, reply.usage))


def collect(pieces: Iterable[Piece]) -> tuple[Message, End]:
    """A whole answer from its pieces; it is one that ended."""
    texts: list[str] = []
    calls: list[ToolCall] = []
    end = End("stop", Usage())
    for piece in pieces:
        match piece:
            case Text(text):
                texts.append(text)
            case Call(call):
                calls.append(call)
            case End():
                end = piece
            case Thought() | Wait():
                pass
    message = Message(role="assistant", content="".join(texts), tool_calls=tuple(calls))
    return message, end
