"""What is said to a model and what comes back, in OpenAI's message form."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from contracts.tool import Tool, ToolCall

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message. `tool_calls` only from the assistant, `tool_call_id` only from a tool."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens and money. `input` counts fresh tokens only: cache reads and writes are apart."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            cost_usd=self.cost_usd + other.cost_usd,
        )

    @property
    def total(self) -> int:
        """All tokens, however they were counted."""
        return self.input + self.output + self.cache_read + self.cache_write


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """One call of a model. `model` is any litellm name, or `scripted/<file>`.

    `response_schema` is the JSON Schema that the answer is to keep; not every model does.
    """

    model: str
    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    max_tokens: int | None = None
    response_schema: Mapping[str, object] | None = None
    timeout_s: float = 600.0


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the model said, why it stopped, and what that cost."""

    message: Message
    usage: Usage = field(default_factory=Usage)
    stop_reason: str = "stop"


Complete = Callable[[ChatRequest], Reply]
"""Calls a model.

Raises:
    ModelUnavailable: no key, unknown model, or the provider does not answer.
"""

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Gives one vector for each text, in the order of the texts.

Raises:
    ModelRefused: it does not take one of the texts.
    ModelUnavailable: no key, unknown model, or the provider does not answer.
"""
