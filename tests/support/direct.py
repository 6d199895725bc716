"""Models called from this process, without a gateway."""

import time
from collections.abc import Iterator
from pathlib import Path

from contracts.chat import ChatRequest, Complete, Reply
from providers.answer_parts import AnswerPart, collect
from providers.call_model import Sleep, call_model
from providers.model_request import ModelRequest
from providers.script import read_script
from providers.scripted import ScriptedModel, is_scripted, reply_for


def complete(request: ChatRequest, *, pause: Sleep = time.sleep) -> Reply:
    """Call the model; wait and try again as the gateway does.

    Raises:
        ModelUnavailable: no key or a refused one, no such model, or no answer.
        OptionInvalid: a scripted model whose file is no script.
    """
    if is_scripted(request.model):
        return reply_for(request)
    return _reply(call_model(request.model, ModelRequest.of(request), pause=pause))


def scripted_complete(path: Path) -> Complete:
    """A model that answers with the replies of `path`, one after the other.

    Raises:
        OptionInvalid: the file is missing or is no script.
    """
    model = ScriptedModel(read_script(path))
    return lambda _: _reply(model.next_answer())


def _reply(pieces: Iterator[AnswerPart]) -> Reply:
    message, end = collect(pieces)
    return Reply(message=message, usage=end.usage, stop_reason=end.stop_reason)
