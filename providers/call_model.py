"""One call of a model, repeated after passing failures until the answer begins."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from email.utils import parsedate_to_datetime
from itertools import chain
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from contracts.chat import Usage
from contracts.errors import ModelRefused, ModelUnavailable
from contracts.json import text_at
from providers.gateway_api import NO_PRICES, Prices
from providers.litellm_stream import StreamReader, signatures
from providers.models import cost_usd, litellm, max_output_tokens
from providers.openai_messages import ChatAnswer, message_from_openai, usage_from
from providers.protocol import (
    AnswerPart,
    EndPart,
    ModelRequest,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from providers.scripted import ScriptedModel, is_scripted, read_script, script_path

Sleep = Callable[[float], None]

OnFailure = Callable[[str, ModelUnavailable], None]
"""Is told that a model does not answer, and why, before the next one is asked."""

_PATIENCE_S = 30.0
"""Longest wait for a model to answer again while another one could be asked."""


class Answer(NamedTuple):
    """The parts of an answer, and the model that gives it."""

    model: str
    parts: Iterator[AnswerPart]


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
        self._failed_at: dict[str, float] = {}
        self._scripted: dict[str, ScriptedModel] = {}

    def call(
        self, models: Sequence[str], request: ModelRequest, on_failure: OnFailure = lambda *_: None
    ) -> Answer:
        """Call the first of the models that answers; a scripted one answers with its next reply.

        A model that does not answer is reported to `on_failure`, and is asked last from then on.

        Raises:
            ModelRefused: a model refuses the request; no other is asked.
            ModelUnavailable: as `call_model` of the last one, or a script has no reply left.
            OptionInvalid: the file of a scripted model is missing or malformed.
        """
        if not request.stream:
            request = replace(request, timeout_s=request.timeout_s / len(models))
        *others, last = sorted(models, key=lambda model: self._failed_at.get(model, 0.0))
        for model in others:
            try:
                return Answer(model, self._call(model, request, patience_s=_PATIENCE_S))
            except ModelRefused:
                raise
            except ModelUnavailable as error:
                on_failure(model, error)
                self.avoid(model)
        return Answer(last, self._call(last, request))

    def avoid(self, model: str) -> None:
        """Ask this model after the others from now on."""
        self._failed_at[model] = time.monotonic()

    def _call(
        self, model: str, request: ModelRequest, *, patience_s: float = inf
    ) -> Iterator[AnswerPart]:
        if not is_scripted(model):
            return call_model(
                model, request, prices=self._prices, sleep=self._sleep, patience_s=patience_s
            )
        if model not in self._scripted:
            script = read_script(script_path(model))
            opened = ScriptedModel(script, replies_given=self._replies_given.get(model, 0))
            self._scripted.setdefault(model, opened)  # another thread may have been faster
        return self._scripted[model].next_answer()


def call_model(
    model: str,
    request: ModelRequest,
    *,
    prices: Prices = NO_PRICES,
    sleep: Sleep = time.sleep,
    patience_s: float = inf,
) -> Iterator[AnswerPart]:
    """Call a provider's model, again after rate limits and passing failures.

    All attempts together take at most about `request.timeout_s`, and the waits between them
    `patience_s`; a longer wait that the provider asks for is not begun. A conversation longer than
    the model's context gets an empty answer with the stop reason "context_window".

    Raises:
        ModelUnavailable: no key, a refused key, no such model, or no answer; while the parts
            are read: the answer broke off.
    """
    deadline = time.monotonic() + request.timeout_s
    attempt, waited_s = 0, 0.0
    while True:
        attempt += 1
        answer = _attempt(model, request, prices, max(1.0, deadline - time.monotonic()))
        if not isinstance(answer, Exception):
            return answer
        delay_s = retry_delay_s(answer, attempt)
        waited_s += delay_s
        is_late = waited_s > patience_s or time.monotonic() + delay_s > deadline
        if attempt > max_retries(answer) or is_late:
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


def _complete_answer(raw: Mapping[str, object]) -> Iterator[AnswerPart]:
    """Return the parts of an answer that was not streamed.

    Raises:
        ValueError: `raw` is not an answer.
    """
    answer = ChatAnswer.model_validate(raw)
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


CONTEXT_OVERFLOW = "context_window"
"""Stop reason of the empty reply to a conversation longer than the model's context."""

_SECRET = re.compile(r"(?i)\b(?:sk|pk|rk|gsk|xai|AIza)[-_A-Za-z0-9*.]{6,}|bearer\s+\S+")
_LITELLM_PREFIX = re.compile(r"^(?:litellm\.)?(?:\w+Error: )*(?:\w+Exception - )?")
_KEY = "the key for {model!r} was refused: check it, and that it may use this model"
_REFUSED = "{model!r} refused the request as malformed ({line})"
_NO_ANSWER = "{model!r} gives no usable answer{after}: is its address right? ({line})"
_MESSAGES = {
    401: _KEY,
    403: _KEY,
    402: "the account behind {model!r} has no credit left ({line})",
    404: "the provider knows no model {model!r}: check its name ({line})",
    408: "{model!r} did not answer in time{after}: try again or use another model",
    429: "{model!r} is rate limited{after}: wait, or use another model ({line})",
}


def provider_error(failure: Exception) -> Exception:
    """Return the provider's own error, which litellm wraps when it happens in a stream."""
    inner = getattr(failure, "original_exception", None)
    return inner if isinstance(inner, Exception) and hasattr(inner, "status_code") else failure


def max_retries(failure: Exception) -> int:
    """Return how often to repeat a request that failed in this way."""
    match _status(failure):
        case 429 | 503 | 529:
            return 5
        case status if status >= 500 or status in (0, 408):
            return 2
        case _:
            return 0


def retry_delay_s(failure: Exception, attempt: int) -> float:
    """Return the delay that the provider asks for, else 1, 2, 4, 8, 16 seconds."""
    headers = getattr(failure, "litellm_response_headers", None) or {}
    wanted = str(headers.get("retry-after", ""))
    try:
        return max(0.0, float(wanted))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(wanted).timestamp() - time.time())
    except ValueError:
        return 2.0 ** (attempt - 1)


def unavailable_error(model: str, failure: Exception, *, attempts: int) -> ModelUnavailable:
    """Return the error to raise after the last attempt. Its message never holds a key."""
    status = _status(failure)
    bad_request = 400 <= status < 500
    template = _MESSAGES.get(status, _REFUSED if bad_request else _NO_ANSWER)
    after = f" after {attempts} attempts" if attempts > 1 else ""
    message = template.format(model=model, after=after, line=_first_line(failure))
    refused = bad_request and status not in _MESSAGES
    return ModelRefused(message) if refused else ModelUnavailable(message)


def describe_interruption(model: str, failure: Exception) -> str:
    """Return one line about an answer that ended in the middle. It never holds a key."""
    line = _first_line(failure)
    return f"the answer of {model!r} broke off: try again, or use another model ({line})"


def _status(failure: Exception) -> int:
    """Return the HTTP status that litellm found or chose; 0 when there is none."""
    if "timed out" in str(failure).lower():
        return 408
    status = getattr(failure, "status_code", 0)
    return status if isinstance(status, int) else 0


def _first_line(failure: Exception) -> str:
    """Return the provider's first line, at most 200 characters, with keys replaced."""
    lines = str(failure).strip().splitlines() or [type(failure).__name__]
    return _SECRET.sub("***", _LITELLM_PREFIX.sub("", lines[0]))[:200]
