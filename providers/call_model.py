"""One call of a model, repeated after passing failures until the answer begins."""

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
from providers.openai_messages import message_from_openai
from providers.prices import NO_PRICES, Prices, cost_usd, max_output_tokens
from providers.scripted import ScriptedModel, is_scripted, read_script, script_path
from providers.usage import usage_from

Sleep = Callable[[float], None]


class RunModels:
    """The models of one run. Its agents share one place in each script.

    `replies_given` counts, by model, the replies that a resumed run had before.
    """

    def __init__(
        self,
        prices: Prices = NO_PRICES,
        *,
        sleep: Sleep = time.sleep,
        replies_given: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._prices = prices
        self._sleep = sleep
        self._replies_given = replies_given
        self._scripted: dict[str, ScriptedModel] = {}

    def call(self, model: str, request: ModelRequest) -> Iterator[AnswerPart]:
        """Call a model; a scripted one answers with its next reply.

        Raises:
            ModelUnavailable: as `call_model`, or the script has no reply left.
            OptionInvalid: the file of a scripted model is missing or malformed.
        """
        if not is_scripted(model):
            return call_model(model, request, prices=self._prices, sleep=self._sleep)
        if model not in self._scripted:
            script = read_script(script_path(model))
            opened = ScriptedModel(script, replies_given=self._replies_given.get(model, 0))
            self._scripted.setdefault(model, opened)  # another thread may have been faster
        return self._scripted[model].next_answer()


def call_model(
    model: str, request: ModelRequest, *, prices: Prices = NO_PRICES, sleep: Sleep = time.sleep
) -> Iterator[AnswerPart]:
    """Call a provider's model, again after rate limits and passing failures.

    All attempts together take at most about `request.timeout_s`. A conversation longer than
    the model's context gets an empty answer with the stop reason "context_window".

    Raises:
        ModelUnavailable: no key, a refused key, no such model, or no answer; while the parts
            are read: the answer broke off.
    """
    deadline = time.monotonic() + request.timeout_s
    attempt = 0
    while True:
        attempt += 1
        answer = _attempt(model, request, prices, max(1.0, deadline - time.monotonic()))
        if not isinstance(answer, Exception):
            return answer
        delay_s = retry_delay_s(answer, attempt)
        if attempt > max_retries(answer) or time.monotonic() + delay_s > deadline:
            # Not chained to its cause: providers echo requests and parts of keys there.
            raise unavailable_error(model, answer, attempts=attempt)
        sleep(delay_s)


def _attempt(
    model: str, request: ModelRequest, prices: Prices, timeout_s: float
) -> Iterator[AnswerPart] | Exception:
    """Return the answer, whose first part has arrived, or the provider's failure."""
    import openai  # litellm derives all errors of providers from its root

    try:
        response = litellm().completion(**_arguments(model, request), timeout=timeout_s)
        if not request.stream:
            return _with_cost(_complete_answer(response.model_dump()), model, prices)
        parts = StreamReader(response, request).parts()
        first = next(parts)
    except litellm().exceptions.ContextWindowExceededError:
        return iter((EndPart(CONTEXT_OVERFLOW, Usage()),))
    except (openai.OpenAIError, ValueError) as error:
        return provider_error(error)
    return _with_cost(chain((first,), _rest_of_stream(model, parts)), model, prices)


def _rest_of_stream(model: str, parts: Iterator[AnswerPart]) -> Iterator[AnswerPart]:
    import openai

    failure: Exception | None = None
    try:
        yield from parts
    except (openai.OpenAIError, ValueError) as error:
        failure = provider_error(error)
    if failure is not None:  # outside `except`, so that the provider's text is not chained
        raise ModelUnavailable(describe_interruption(model, failure))


def _with_cost(parts: Iterator[AnswerPart], model: str, prices: Prices) -> Iterator[AnswerPart]:
    for part in parts:
        if isinstance(part, EndPart):
            cost = cost_usd(model, part.usage, prices)
            yield replace(part, usage=replace(part.usage, cost_usd=cost))
        else:
            yield part


class _Choice(BaseModel, frozen=True, extra="ignore"):
    message: dict[str, object]
    finish_reason: str = "stop"


class _Answer(BaseModel, frozen=True, extra="ignore"):
    choices: list[_Choice] = Field(min_length=1)
    usage: dict[str, object] | None = None


def _complete_answer(raw: Mapping[str, object]) -> Iterator[AnswerPart]:
    """Return the parts of an answer that was not streamed.

    Raises:
        ValueError: `raw` is not an answer.
    """
    answer = _Answer.model_validate(raw)
    choice = answer.choices[0]
    message = message_from_openai(choice.message)
    text = (TextPart(message.content),) if message.content else ()
    calls = (ToolCallPart(call) for call in message.tool_calls)
    end = EndPart(choice.finish_reason, usage_from(answer.usage or {}))
    return iter((*_thinking(choice.message), *text, *calls, end))


def _thinking(message: Mapping[str, object]) -> Iterator[ThinkingPart]:
    blocks = message.get("thinking_blocks")
    if not isinstance(blocks, list):
        blocks = [{"thinking": message.get("reasoning_content")}]
    for block in blocks:
        if text := text_at(block, "thinking"):
            yield ThinkingPart(text)
        yield from signatures([block])


def _arguments(model: str, request: ModelRequest) -> dict[str, object]:
    provider, slash, name = model.partition("/")
    # litellm's `ollama/` is Ollama's older API, which has no tool calls.
    asked_model = f"ollama_chat/{name}" if slash and provider == "ollama" else model
    arguments: dict[str, object] = {
        "model": asked_model,
        "messages": list(request.messages),
        "num_retries": 0,
        "max_retries": 0,
        **_options(model, request),
    }
    if request.tools:
        arguments["tools"] = list(request.tools)
    if request.stream:
        arguments |= {"stream": True, "stream_options": {"include_usage": True}}
    if "claude" in model:  # Anthropic caches only a prompt that is marked
        arguments["cache_control_injection_points"] = [
            {"location": "message", "role": "system"},
            {"location": "message", "index": -1},
        ]
    return arguments


def _options(model: str, request: ModelRequest) -> dict[str, object]:
    """Return the agent's options as far as this model takes them."""
    options = dict(request.options)
    if "claude" not in model:
        options.pop("thinking", None)
    wanted, maximum = options.get("max_tokens"), max_output_tokens(model)
    if isinstance(wanted, int) and maximum is not None:
        options["max_tokens"] = min(wanted, maximum)
    return options
