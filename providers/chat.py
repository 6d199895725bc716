"""Calls models: scripted ones here, all others by litellm."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from pydantic import BaseModel, Field

from contracts.chat import ChatRequest, Complete, Message, Reply
from contracts.errors import ModelUnavailable
from providers.failures import OVERFLOW, explain, patience, wait_s
from providers.litellm_door import litellm
from providers.prices import cost_usd
from providers.script import read_script
from providers.scripted import ScriptedModel, is_scripted, reply_for, script_path
from providers.usage import usage_from
from providers.wire_openai import message_in, message_out, tools_out


def complete_for_run() -> Complete:
    """A `complete` for one run: each scripted model keeps its place, whoever calls it."""
    models: dict[str, ScriptedModel] = {}

    def call(request: ChatRequest) -> Reply:
        if not is_scripted(request.model):
            return complete(request)
        if request.model not in models:
            fresh = ScriptedModel(read_script(script_path(request.model)))
            models.setdefault(request.model, fresh)
        return models[request.model].complete(request)

    return call


def complete(request: ChatRequest, *, pause: Callable[[float], None] = time.sleep) -> Reply:
    """Call the model; wait and try again on rate limits and passing failures.

    All attempts together take at most about `request.timeout_s`. A conversation too long
    for the model is an empty reply with the stop reason "context_window".

    Raises:
        ModelUnavailable: no key or a refused one, no such model, or no answer.
        OptionInvalid: a scripted model whose file is no script.
    """
    if is_scripted(request.model):
        return reply_for(request)
    deadline = time.monotonic() + request.timeout_s
    attempt = 0
    while True:
        attempt += 1
        outcome = _attempt(request, timeout_s=max(1.0, deadline - time.monotonic()))
        if isinstance(outcome, Reply):
            return outcome
        delay = wait_s(outcome, attempt)
        if attempt > patience(outcome) or time.monotonic() + delay > deadline:
            # Not chained to its cause: providers echo requests and parts of keys there.
            raise ModelUnavailable(explain(request.model, outcome, attempts=attempt))
        pause(delay)


def _attempt(request: ChatRequest, *, timeout_s: float) -> Reply | Exception:
    """One call: the reply, or the provider's failure as a value."""
    import openai  # every error that litellm raises for a provider derives from its root

    started = time.monotonic()
    try:
        response = litellm().completion(**_arguments(request), timeout=timeout_s)
    except litellm().exceptions.ContextWindowExceededError:
        return Reply(message=Message(role="assistant"), stop_reason=OVERFLOW)
    except openai.OpenAIError as error:
        return error
    return _reply(request.model, response.model_dump(), started)


def _reply(model: str, raw: Mapping[str, object], started: float) -> Reply | Exception:
    try:
        answer = _Answer.model_validate(raw)
        message = message_in(answer.choices[0].message)
    except ValueError as error:
        return error
    usage = usage_from(answer.usage or {})
    return Reply(
        message=message,
        usage=replace(usage, cost_usd=cost_usd(model, usage)),
        stop_reason=answer.choices[0].finish_reason,
        latency_ms=round((time.monotonic() - started) * 1000),
    )


class _Choice(BaseModel, frozen=True, extra="ignore"):
    message: dict[str, object]
    finish_reason: str = "stop"


class _Answer(BaseModel, frozen=True, extra="ignore"):
    choices: list[_Choice] = Field(min_length=1)
    usage: dict[str, object] | None = None


def _arguments(request: ChatRequest) -> dict[str, object]:
    arguments: dict[str, object] = {
        "model": request.model,
        "messages": [message_out(message) for message in request.messages],
        "num_retries": 0,
        "max_retries": 0,
    }
    if request.tools:
        arguments["tools"] = tools_out(request.tools)
    if request.max_tokens is not None:
        arguments["max_tokens"] = request.max_tokens
    if "claude" in request.model:
        arguments["cache_control_injection_points"] = [
            {"location": "message", "role": "system"},
            {"location": "message", "index": -1},
        ]
    return arguments
