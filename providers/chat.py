"""Calls models from this process, for whoever needs no gateway: benchmarks and tests."""

import time
from collections.abc import Iterator

from contracts.chat import ChatRequest, Reply
from providers.answer import Pause, answer
from providers.ask import Ask
from providers.pieces import Piece, collect
from providers.scripted import is_scripted, reply_for


def complete(request: ChatRequest, *, pause: Pause = time.sleep) -> Reply:
    """Call the model; wait and try again on rate limits and passing failures.

    All attempts together take at most about `request.timeout_s`. A conversation too long
    for the model is an empty reply with the stop reason "context_window".

    Raises:
        ModelUnavailable: no key or a refused one, no such model, or no answer.
        OptionInvalid: a scripted model whose file is no script.
    """
    if is_scripted(request.model):
        return reply_for(request)
    started = time.monotonic()
    return reply_from(answer(request.model, Ask.of(request), pause=pause), started)


def reply_from(pieces: Iterator[Piece], started: float) -> Reply:
    """The whole reply; `started` is when it was asked for, by the monotonic clock."""
    message, end = collect(pieces)
    return Reply(
        message=message,
        usage=end.usage,
        stop_reason=end.stop_reason,
        latency_ms=round((time.monotonic() - started) * 1000),
    )
