"""Models that replay a script: `scripted/<file>`. The file's form is told in `script.py`."""

import threading
from collections.abc import Iterator
from pathlib import Path

from contracts.chat import ChatRequest, Reply
from contracts.errors import ModelUnavailable, OptionInvalid
from providers.answer_parts import AnswerPart, reply_parts
from providers.script import BrokenReply, Script, read_script

SCRIPTED_PREFIX = "scripted/"


class ScriptedModel:
    """A script and a place in it, for one run; several threads may call it."""

    def __init__(self, script: Script, *, said: int = 0) -> None:
        self._script = script
        self._next = said
        self._lock = threading.Lock()

    def next_answer(self) -> Iterator[AnswerPart]:
        """The next reply in pieces, whatever was said; one that breaks off does so at its end.

        Raises:
            ModelUnavailable: the script is at its end, or this reply broke off.
        """
        reply = self._reply()
        return _breaking(reply) if isinstance(reply, BrokenReply) else iter(reply_parts(reply))

    def _reply(self) -> Reply:
        with self._lock:
            index, self._next = self._next, self._next + 1
        return self._script.reply(index)


def _breaking(reply: BrokenReply) -> Iterator[AnswerPart]:
    *said, _ = reply_parts(reply)
    yield from said
    raise ModelUnavailable(reply.why)


def reply_for(request: ChatRequest) -> Reply:
    """The reply that follows this conversation: as many as it holds are taken as said.

    For callers that know one conversation and no run. A second conversation starts at
    the first reply again: a run of several takes a `ScriptedModel`.
    """
    said = sum(message.role == "assistant" for message in request.messages)
    return read_script(script_path(request.model)).reply(said)


def is_scripted(model: str) -> bool:
    """True for `scripted/<file>`."""
    return model.startswith(SCRIPTED_PREFIX)


def script_path(model: str) -> Path:
    """The file that `scripted/<file>` names; a relative one starts at the current folder.

    Raises:
        OptionInvalid: it is in the home of a user that nobody knows.
    """
    try:
        return Path(model.removeprefix(SCRIPTED_PREFIX)).expanduser()
    except RuntimeError as error:
        raise OptionInvalid(f"cannot read scripted model {model!r}: {error}") from error
