"""A model's answer in parts: text as it arrives, tool calls complete, the end last."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from contracts.chat import Message, Reply, Usage
from contracts.json import as_mappings, text_at
from contracts.tool import ToolCall

MAX_RECORDED_TEXT = 4_000_000
"""Characters of text that the record of one answer keeps; agents get all of it."""


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


def signatures(thinking_blocks: object) -> Iterator[ThinkingPart]:
    """Signatures and redacted blocks in litellm's `thinking_blocks`."""
    for block in as_mappings(thinking_blocks):
        if signature := text_at(block, "signature"):
            yield ThinkingPart(signature=signature)
        if data := text_at(block, "data"):
            yield ThinkingPart(redacted=data)


@dataclass(frozen=True)
class ToolCallPart:
    """One complete tool call."""

    call: ToolCall


@dataclass(frozen=True)
class EndPart:
    """Why the model stopped, and what the answer cost."""

    stop_reason: str
    usage: Usage


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
