"""A model's answer in pieces: asked for again while nothing was said, then let through."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from types import MappingProxyType

from pydantic import BaseModel, Field

from contracts.chat import Usage
from contracts.errors import ModelUnavailable
from contracts.json import text_at
from providers.answer_parts import (
    AnswerPart,
    EndPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    signatures,
)
from providers.litellm_setup import litellm
from providers.litellm_stream import StreamReader
from providers.model_failures import (
    CONTEXT_OVERFLOW,
    describe_interruption,
    max_retries,
    provider_error,
    retry_delay_s,
    unavailable_error,
)
from providers.model_request import ModelRequest
from providers.prices import NO_PRICES, Prices, cost_usd, max_output_tokens
from providers.script import read_script
from providers.scripted import ScriptedModel, is_scripted, script_path
from providers.usage import usage_from
from providers.wire_openai import message_from_openai

Sleep = Callable[[float], None]


class RunModels:
    """The models of one run: each scripted one keeps its place, whoever asks.

    `said` are the replies, by model, that were given before the run went on.
    """

    def __init__(
        self,
        prices: Prices = NO_PRICES,
        *,
        pause: Sleep = time.sleep,
        said: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._prices = prices
        self._pause = pause
        self._said = said
        self._scripted: dict[str, ScriptedModel] = {}

    def call(self, model: str, ask: ModelRequest) -> Iterator[AnswerPart]:
        """As `answer`; a scripted model gives its next reply, whatever was said.

        Raises:
            ModelUnavailable: as `answer`, or the script is at its end.
            OptionInvalid: a scripted model whose file is no script.
        """
        if not is_scripted(model):
            return call_model(model, ask, prices=self._prices, pause=self._pause)
        if model not in self._scripted:
            script = read_script(script_path(model))
            fresh = ScriptedModel(script, said=self._said.get(model, 0))
            self._scripted.setdefault(model, fresh)
        return self._scripted[model].next_answer()


def call_model(
    model: str, ask: ModelRequest, *, prices: Prices = NO_PRICES, pause: Sleep = time.sleep
) -> Iterator[AnswerPart]:
    """Ask, wait and ask again on rate limits and passing failures; then give what comes.

    All attempts together take at most about `ask.silence_s`. A conversation too long for
    the model is an empty answer with the stop reason "context_window".

    Raises:
        ModelUnavailable: no key or a refused one, no such model, or no answer; while the
            pieces are taken: the model broke off.
    """
    deadline = time.monotonic() + ask.timeout_s
    attempt = 0
    while True:
        attempt += 1
        begun = _attempt(model, ask, prices, max(1.0, deadline - time.monotonic()))
        if not isinstance(begun, Exception):
            return begun
        delay = retry_delay_s(begun, attempt)
        if attempt > max_retries(begun) or time.monotonic() + delay > deadline:
            # Not chained to its cause: providers echo requests and parts of keys there.
            raise unavailable_error(model, begun, attempts=attempt)
        pause(delay)


def _attempt(
    model: str, ask: ModelRequest, prices: Prices, timeout_s: float
) -> Iterator[AnswerPart] | Exception:
    """One call: its answer from the first piece on, or the provider's failure as a value."""
    import openai  # every error that litellm raises for a provider derives from its root

    try:
        said = litellm().completion(**_arguments(model, ask), timeout=timeout_s)
        if not ask.stream:
            return _priced(_pieces(said.model_dump()), model, prices)
        pieces = StreamReader(said, asked=lambda: ask.characters).parts()
        first = next(pieces)
    except litellm().exceptions.ContextWindowExceededError:
        return iter((EndPart(CONTEXT_OVERFLOW, Usage()),))
    except (openai.OpenAIError, ValueError) as error:
        return provider_error(error)
    return _priced(chain((first,), _to_the_end(model, pieces)), model, prices)


def _to_the_end(model: str, pieces: Iterator[AnswerPart]) -> Iterator[AnswerPart]:
    import openai

    broken: Exception | None = None
    try:
        yield from pieces
    except (openai.OpenAIError, ValueError) as error:
        broken = provider_error(error)
    if broken is not None:
        raise ModelUnavailable(describe_interruption(model, broken))


def _priced(pieces: Iterator[AnswerPart], model: str, prices: Prices) -> Iterator[AnswerPart]:
    for piece in pieces:
        if isinstance(piece, EndPart):
            cost = cost_usd(model, piece.usage, prices)
            yield replace(piece, usage=replace(piece.usage, cost_usd=cost))
        else:
            yield piece


def _pieces(raw: Mapping[str, object]) -> Iterator[AnswerPart]:
    """The pieces of an answer that came whole.

    Raises:
        ValueError: it is no answer. pydantic's ValidationError is one.
    """
    whole = _Answer.model_validate(raw)
    message = message_from_openai(whole.choices[0].message)
    text = (TextPart(message.content),) if message.content else ()
    calls = (ToolCallPart(call) for call in message.tool_calls)
    end = EndPart(whole.choices[0].finish_reason, usage_from(whole.usage or {}))
    return iter((*_thoughts(whole.choices[0].message), *text, *calls, end))


def _thoughts(message: Mapping[str, object]) -> Iterator[ThinkingPart]:
    """What it thought, with signatures where there are some."""
    blocks = message.get("thinking_blocks")
    if not isinstance(blocks, list):
        blocks = [{"thinking": message.get("reasoning_content")}]
    for block in blocks:
        if text := text_at(block, "thinking"):
            yield ThinkingPart(text)
        yield from signatures([block])


class _Choice(BaseModel, frozen=True, extra="ignore"):
    message: dict[str, object]
    finish_reason: str = "stop"


class _Answer(BaseModel, frozen=True, extra="ignore"):
    choices: list[_Choice] = Field(min_length=1)
    usage: dict[str, object] | None = None


def _arguments(model: str, ask: ModelRequest) -> dict[str, object]:
    arguments: dict[str, object] = {
        "model": _asked_as(model),
        "messages": list(ask.messages),
        "num_retries": 0,
        "max_retries": 0,
        **_options(model, ask),
    }
    if ask.tools:
        arguments["tools"] = list(ask.tools)
    if ask.stream:
        arguments |= {"stream": True, "stream_options": {"include_usage": True}}
    if "claude" in model:
        arguments["cache_control_injection_points"] = [
            {"location": "message", "role": "system"},
            {"location": "message", "index": -1},
        ]
    return arguments


def _asked_as(model: str) -> str:
    """`ollama/…` is litellm's word for an old wire of Ollama's, which has no calls of tools."""
    provider, slash, name = model.partition("/")
    return f"ollama_chat/{name}" if slash and provider == "ollama" else model


def _options(model: str, ask: ModelRequest) -> dict[str, object]:
    """The agent's options, as far as this model can take them."""
    options = dict(ask.options)
    if "claude" not in model:
        options.pop("thinking", None)
    asked, most = options.get("max_tokens"), max_output_tokens(model)
    if isinstance(asked, int) and most is not None:
        options["max_tokens"] = min(asked, most)
    return options
