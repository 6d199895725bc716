"""Models called from this process, without a gateway."""

import time
from collections.abc import Iterator
from pathlib import Path

from contracts.chat import ChatRequest, Complete, Reply
from providers.call_model import Sleep, call_model
from providers.openai_messages import message_to_openai, tools_to_openai
from providers.protocol import AnswerPart, ModelRequest, collect
from providers.scripted import ScriptedModel, read_script


def model_request(request: ChatRequest) -> ModelRequest:
    """Return a chat request as the gateway reads it."""
    return ModelRequest(
        messages=[message_to_openai(message) for message in request.messages],
        tools=tools_to_openai(request.tools),
        timeout_s=request.timeout_s,
    )


def complete(request: ChatRequest, *, sleep: Sleep = time.sleep) -> Reply:
    """Call a provider's model, with retries as in the gateway.

    Raises:
        ModelUnavailable: no key or a refused one, no such model, or no answer.
    """
    return _reply(call_model(request.model, model_request(request), sleep=sleep))


def scripted_complete(path: Path) -> Complete:
    """Return a function that answers with the replies of a script, in order.

    Raises:
        OptionInvalid: the script is missing or malformed.
    """
    model = ScriptedModel(read_script(path))
    return lambda _: _reply(model.next_answer())


def _reply(parts: Iterator[AnswerPart]) -> Reply:
    message, end = collect(parts)
    return Reply(message=message, usage=end.usage, stop_reason=end.stop_reason)
