"""A streamed answer of litellm as parts, in constant memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING

from contracts.chat import Usage
from contracts.json import as_mappings, text_at
from contracts.tool import ToolCall
from providers.openai_messages import usage_from
from providers.protocol import (
    AnswerPart,
    EndPart,
    ModelRequest,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)

if TYPE_CHECKING:
    from litellm import CustomStreamWrapper
    from litellm.types.utils import ChatCompletionDeltaToolCall, Delta

MAX_ARGUMENTS = 4_000_000
"""Characters kept of the arguments of one tool call."""


class StreamInterrupted(ValueError):
    """The stream ended without a finish reason."""


class StreamReader:
    """Reads one streamed answer to `request`."""

    def __init__(self, wrapper: "CustomStreamWrapper", request: ModelRequest) -> None:
        self._wrapper = wrapper
        self._request = request
        self._calls: list[_PartialCall] = []
        self._call_at: dict[int, _PartialCall] = {}
        self._usage = Usage()
        self._characters = 0

    def parts(self) -> Iterator[AnswerPart]:
        """Yield text and thinking as they arrive, then the tool calls, then the end.

        Raises:
            StreamInterrupted: the stream ended without a finish reason.
        """
        reason = "stop"
        for chunk in self._wrapper:
            for choice in chunk.choices:
                reason = choice.finish_reason or reason
                yield from self._read(choice.delta)
            if (counts := getattr(chunk, "usage", None)) is not None:
                self._usage = usage_from(counts.model_dump())
            self._forget_chunks()
        wrapper = self._wrapper
        if not (wrapper.received_finish_reason or wrapper.intermittent_finish_reason):
            raise StreamInterrupted("the connection ended before the model did")
        yield from (ToolCallPart(call.complete()) for call in self._calls)
        yield EndPart("tool_calls" if self._calls else reason, self._final_usage())

    def _read(self, delta: "Delta") -> Iterator[AnswerPart]:
        if delta.content:
            self._characters += len(delta.content)
            yield TextPart(delta.content)
        for fragment in delta.tool_calls or ():
            self._call(fragment).add(fragment)
            self._characters += len(fragment.function.arguments or "")
        if thinking := getattr(delta, "reasoning_content", None):
            self._characters += len(thinking)
            yield ThinkingPart(thinking)
        yield from signatures(getattr(delta, "thinking_blocks", None))

    def _call(self, fragment: "ChatCompletionDeltaToolCall") -> "_PartialCall":
        """Return the call of a fragment. Some providers give all calls the same index."""
        call = self._call_at.get(fragment.index)
        if call is None or call.ends_before(fragment):
            call = self._call_at[fragment.index] = _PartialCall()
            self._calls.append(call)
        return call

    def _forget_chunks(self) -> None:
        """Drop the text and chunks that litellm collects, except chunks with token counts.

        Without this the gateway grows with the answer: see `make bench`, "memory after 50 MB".
        """
        self._wrapper.response_uptil_now = ""
        chunks = self._wrapper.chunks
        chunks[:-2] = [chunk for chunk in chunks[:-2] if getattr(chunk, "usage", None)]

    def _final_usage(self) -> Usage:
        """Return the provider's counts, or an estimate when it sent none."""
        # Without counts in the chunks, the last chunk has litellm's count of the two it kept.
        if any(getattr(chunk, "usage", None) for chunk in self._wrapper.chunks):
            return self._usage
        return estimated_usage(self._request.characters, self._characters)


def signatures(thinking_blocks: object) -> Iterator[ThinkingPart]:
    """Signatures and redacted blocks in litellm's `thinking_blocks`."""
    for block in as_mappings(thinking_blocks):
        if signature := text_at(block, "signature"):
            yield ThinkingPart(signature=signature)
        if data := text_at(block, "data"):
            yield ThinkingPart(redacted=data)


def estimated_usage(request_characters: int, answer_characters: int) -> Usage:
    """Return an estimate of four characters for a token."""
    return Usage(input=request_characters // 4, output=answer_characters // 4)


@dataclass
class _PartialCall:
    """The fragments of one tool call so far."""

    id: str = ""
    name: str = ""
    fragments: list[str] = field(default_factory=list)
    characters: int = 0

    def ends_before(self, fragment: "ChatCompletionDeltaToolCall") -> bool:
        """Return whether the fragment belongs to another call."""
        if self.id and fragment.id:
            return bool(self.id != fragment.id)
        return bool(self.name and fragment.function.name and not fragment.id)

    def add(self, fragment: "ChatCompletionDeltaToolCall") -> None:
        self.id = self.id or fragment.id or ""
        self.name = self.name or fragment.function.name or ""
        text = fragment.function.arguments or ""
        if self.characters <= MAX_ARGUMENTS:  # the guard refuses a call with more
            self.fragments.append(text)
        self.characters += len(text)

    def complete(self) -> ToolCall:
        call_id = self.id or f"call_{token_hex(6)}"  # some providers send no id
        return ToolCall(id=call_id, name=self.name, arguments="".join(self.fragments))
