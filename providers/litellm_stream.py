"""A streamed answer of litellm, made pieces; nothing of it is kept but the end."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Protocol

from contracts.chat import Usage
from contracts.tool import ToolCall
from providers.answer_parts import (
    AnswerPart,
    EndPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    signatures,
)
from providers.usage import usage_from

MAX_ARGUMENTS = 4_000_000
"""Characters that the arguments of one call may have; what is beyond is cut off."""

_REMEMBERED = 2


class StreamInterrupted(ValueError):
    """The stream ended before the model said that it was done."""


class Delta(Protocol):
    """What one chunk adds, as litellm tells it."""

    content: str | None
    tool_calls: Sequence["DeltaCall"] | None


class DeltaCall(Protocol):
    """A part of one call."""

    index: int
    id: str | None
    function: "DeltaFunction"


class DeltaFunction(Protocol):
    name: str | None
    arguments: str | None


class Choice(Protocol):
    delta: Delta
    finish_reason: str | None


class Counts(Protocol):
    def model_dump(self) -> Mapping[str, object]: ...


class Chunk(Protocol):
    choices: Sequence[Choice]
    usage: Counts | None


class Wrapper(Protocol):
    """litellm's `CustomStreamWrapper`, as much of it as is used here."""

    chunks: list[Chunk]
    response_uptil_now: str
    received_finish_reason: str | None
    intermittent_finish_reason: str | None

    def __iter__(self) -> Iterator[Chunk]: ...


class StreamReader:
    """One streamed answer. litellm remembers all that it gave; here it is made to forget."""

    def __init__(self, wrapper: Wrapper, *, asked: Callable[[], int]) -> None:
        """`asked` gives the size of the question in characters, to guess tokens from."""
        self._wrapper = wrapper
        self._asked = asked
        self._calls: list[_CallSoFar] = []
        self._at: dict[int, _CallSoFar] = {}
        self._reason = "stop"
        self._usage = Usage()
        self._said = 0
        self._forgot = False

    def parts(self) -> Iterator[AnswerPart]:
        """Text and thoughts as they come, then the calls, then the end.

        Raises:
            StreamCut: it ended without the model's word that it was done.
        """
        for chunk in self._wrapper:
            for choice in chunk.choices:
                self._reason = choice.finish_reason or self._reason
                yield from self._heard(choice.delta)
            counts = getattr(chunk, "usage", None)
            self._usage = usage_from(counts.model_dump()) if counts is not None else self._usage
            self._forget()
        ending = (self._wrapper.received_finish_reason, self._wrapper.intermittent_finish_reason)
        if not any(ending):
            raise StreamInterrupted("the connection ended before the model did")
        calls = [ToolCallPart(call.whole()) for call in self._calls]
        yield from calls
        yield EndPart("tool_calls" if calls else self._reason, self._counted())

    def _heard(self, delta: Delta) -> Iterator[AnswerPart]:
        if delta.content:
            self._said += len(delta.content)
            yield TextPart(delta.content)
        for part in delta.tool_calls or ():
            self._call(part).add(part)
            self._said += len(part.function.arguments or "")
        yield from self._thoughts(delta)

    def _call(self, part: DeltaCall) -> "_CallSoFar":
        """The call that this is a part of; some providers give all of them one index."""
        known = self._at.get(part.index)
        if known is None or known.ends_before(part):
            known = self._at[part.index] = _CallSoFar()
            self._calls.append(known)
        return known

    def _thoughts(self, delta: Delta) -> Iterator[AnswerPart]:
        thought = getattr(delta, "reasoning_content", None)
        if thought:
            self._said += len(thought)
            yield ThinkingPart(thought)
        yield from signatures(getattr(delta, "thinking_blocks", None))

    def _forget(self) -> None:
        """Drop what litellm gathers of the answer, but for the counts in it."""
        self._wrapper.response_uptil_now = ""
        chunks = self._wrapper.chunks
        if len(chunks) > _REMEMBERED:
            self._forgot = True
            counted = [chunk for chunk in chunks[:-2] if getattr(chunk, "usage", None)]
            chunks[:-2] = counted

    def _counted(self) -> Usage:
        """The provider's counts; litellm guesses where there are none, but not past a gap."""
        told = any(getattr(chunk, "usage", None) for chunk in self._wrapper.chunks)
        if told or not self._forgot:
            return self._usage
        return estimated_usage(self._asked(), self._said)


def estimated_usage(asked: int, said: int) -> Usage:
    """About how many tokens so many characters are, when nobody counted them."""
    return Usage(input=asked // 4, output=said // 4)


@dataclass
class _CallSoFar:
    """The parts of one call that came so far."""

    id: str = ""
    name: str = ""
    parts: list[str] = field(default_factory=list)
    size: int = 0

    def ends_before(self, part: DeltaCall) -> bool:
        """Whether this part begins another call."""
        if self.id and part.id:
            return self.id != part.id
        return bool(self.name and part.function.name and not part.id)

    def add(self, part: DeltaCall) -> None:
        self.id = self.id or part.id or ""
        self.name = self.name or part.function.name or ""
        text = part.function.arguments or ""
        if self.size <= MAX_ARGUMENTS:
            self.parts.append(text)
        self.size += len(text)

    def whole(self) -> ToolCall:
        """Not every provider gives calls a name of their own."""
        made = self.id or f"call_{token_hex(6)}"
        return ToolCall(id=made, name=self.name, arguments="".join(self.parts))
