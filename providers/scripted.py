"""Scripted models: `scripted/<file>` answers with the replies of a file, in order.

A script is JSONL, one reply a line, or a JSON array of replies. A reply is an assistant
message in OpenAI's form. Of a tool call, `id` and `type` may be left out, and `arguments`
may be an object instead of JSON in a string. `usage` and `stop_reason` may be added:

    {"content": "Let me look.",
     "tool_calls": [{"function": {"name": "bash", "arguments": {"command": "pytest -q"}}}]}
    {"content": "Fixed.", "usage": {"input": 900, "output": 20, "cost_usd": 0.01}}

(the first reply takes two lines here, but only one in a file). Blank lines and messages of
other roles are skipped, so a recorded conversation is a script too. So is a trajectory: its
replies are played, and a reply that broke off breaks off again.
"""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError

from contracts.chat import Reply
from contracts.errors import ModelUnavailable, OptionInvalid
from providers.openai_messages import AssistantMessage, usage_from
from providers.protocol import AnswerPart, reply_parts

SCRIPTED_PREFIX = "scripted/"


def is_scripted(model: str) -> bool:
    """Return True for `scripted/<file>`."""
    return model.startswith(SCRIPTED_PREFIX)


def script_path(model: str) -> Path:
    """Return the file of `scripted/<file>`, relative to the current folder.

    Raises:
        OptionInvalid: the path begins with `~` and an unknown user.
    """
    try:
        return Path(model.removeprefix(SCRIPTED_PREFIX)).expanduser()
    except RuntimeError as error:
        raise OptionInvalid(f"cannot read scripted model {model!r}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class BrokenReply(Reply):
    """The beginning of a reply that broke off."""

    why: str


@dataclass(frozen=True)
class Script:
    """The replies of one file, in order."""

    path: Path
    replies: tuple[Reply, ...]


class ScriptedModel:
    """A script and the number of replies already used, for one run. Thread-safe."""

    def __init__(self, script: Script, *, replies_given: int = 0) -> None:
        self._script = script
        self._next = replies_given
        self._lock = threading.Lock()

    def next_answer(self) -> Iterator[AnswerPart]:
        """Return the next reply in parts, whatever the request was.

        Raises:
            ModelUnavailable: the script has no reply left; or, after the parts, this reply
                broke off.
        """
        reply = self._next_reply()
        return _breaking_off(reply) if isinstance(reply, BrokenReply) else iter(reply_parts(reply))

    def _next_reply(self) -> Reply:
        with self._lock:
            index, self._next = self._next, self._next + 1
        script = self._script
        if index < len(script.replies):
            return script.replies[index]
        raise ModelUnavailable(
            f"scripted model {str(script.path)!r} has no reply left: "
            f"{len(script.replies)} replies, call {index + 1}"
        )


def _breaking_off(reply: BrokenReply) -> Iterator[AnswerPart]:
    *parts, _ = reply_parts(reply)
    yield from parts
    raise ModelUnavailable(reply.why)


def read_script(path: Path) -> Script:
    """Read all replies of a file.

    Raises:
        OptionInvalid: the file is missing, malformed (the line is named) or has no reply.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise OptionInvalid(f"cannot read scripted model {str(path)!r}: {error}") from error
    replies: list[Reply] = []
    for place, raw in _entries(text):
        try:
            reply = _reply(raw, number=len(replies) + 1)
        except (ValueError, RecursionError) as error:
            line = f"scripted model {str(path)!r}, {place}: {_reason(error)}"
            raise OptionInvalid(line) from error
        replies += [reply] if reply else []
    if not replies:
        raise OptionInvalid(f"scripted model {str(path)!r} holds no assistant reply")
    return Script(path, tuple(replies))


class _ReplyLine(AssistantMessage, frozen=True):
    usage: dict[str, JsonValue] = Field(default_factory=dict)
    stop_reason: str | None = None


class _ReplyEvent(BaseModel, frozen=True, extra="ignore"):
    kind: Literal["reply"]
    message: AssistantMessage
    usage: dict[str, JsonValue] = Field(default_factory=dict)
    stop_reason: str | None = None


class _BrokenEvent(BaseModel, frozen=True, extra="ignore"):
    kind: Literal["broken"]
    why: str
    message: AssistantMessage | None = None
    """None: the model failed before its first word, and the agent asked again or gave up."""


_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])
_ARRAY: TypeAdapter[list[JsonValue]] = TypeAdapter(list[JsonValue])


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield the place of every entry in the file, and its JSON text."""
    if not text.lstrip().startswith("["):
        lines = enumerate(text.split("\n"), start=1)
        yield from ((f"line {number}", line) for number, line in lines if line.strip())
        return
    try:
        array = _ARRAY.validate_json(text)
    except ValidationError:
        yield "line 1", text
        return
    yield from ((f"reply {i}", json.dumps(entry)) for i, entry in enumerate(array, start=1))


def _reply(raw: str, *, number: int) -> Reply | None:
    """Return the reply of an entry, or None for an entry of another kind."""
    entry = _OBJECT.validate_json(raw)
    match entry.get("kind"):
        case None if entry.get("role", "assistant") == "assistant":
            line = _ReplyLine.model_validate(entry)
            return _complete_reply(line, line.usage, line.stop_reason, number)
        case "reply":
            event = _ReplyEvent.model_validate(entry)
            return _complete_reply(event.message, event.usage, event.stop_reason, number)
        case "broken":
            broken = _BrokenEvent.model_validate(entry)
            if broken.message is None:
                return None
            return BrokenReply(message=broken.message.to_message(number), why=broken.why)
        case _:
            return None


def _complete_reply(
    line: AssistantMessage, usage: dict[str, JsonValue], stop_reason: str | None, number: int
) -> Reply:
    message = line.to_message(number)
    default = "tool_calls" if message.tool_calls else "stop"
    return Reply(message=message, usage=usage_from(usage), stop_reason=stop_reason or default)


def _reason(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    return f"{field}: {first['msg']}" if field else first["msg"]
