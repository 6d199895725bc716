"""Requests to a chat model and its replies, in OpenAI's message form."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from contracts.tool import Tool, ToolCall

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message. Only the assistant sets `tool_calls`, only a tool sets `tool_call_id`."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens and US dollars. `input` excludes tokens that were read from or written to a cache."""

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
        """Tokens of all four kinds."""
        return self.input + self.output + self.cache_read + self.cache_write


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """One model call. `model` is any litellm name, or `scripted/<file>`, or several with commas.

    `response_schema` is the JSON Schema for the reply; some models ignore it.
    """

    model: str
    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    max_tokens: int | None = None
    response_schema: Mapping[str, object] | None = None
    timeout_s: float = 600.0


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The model's message, its usage, and the reason why the model stopped.

    `model` is the one that answered; empty if that is not known.
    """

    message: Message
    usage: Usage = field(default_factory=Usage)
    stop_reason: str = "stop"
    model: str = ""


def model_names(model: str) -> tuple[str, ...]:
    """Return the models of a text such as `anthropic/a, openai/b`.

    The first one that answers is used; the others are for when it does not.
    """
    names = (name.strip() for name in model.split(","))
    return tuple(dict.fromkeys(filter(None, names))) or (model,)


def joined_models(models: str | Sequence[str]) -> str:
    """Return the names as one text for `model_names`."""
    return models if isinstance(models, str) else ", ".join(models)


Complete = Callable[[ChatRequest], Reply]
"""Call a model.

Raises:
    ModelUnavailable: no key, unknown model, or the provider does not answer.
"""

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Return one vector for each text, in the order of the texts.

Raises:
    ModelRefused: the model does not accept one of the texts.
    ModelUnavailable: no key, unknown model, or the provider does not answer.
"""
