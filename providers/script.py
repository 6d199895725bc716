"""Files of assistant replies.

A script is JSONL, one reply a line, or a JSON array of replies. A reply is an assistant
message in OpenAI's form. Of a tool call, `id` and `type` may be left out, and `arguments`
may be an object instead of JSON in a string. `usage` and `stop_reason` may be added:

    {"content": "Let me look.",
     "tool_calls": [{"function": {"name": "bash", "arguments": {"command": "pytest -q"}}}]}
    {"content": "Fixed.", "usage": {"input": 900, "output": 20, "cost_usd": 0.01}}

(the first reply is broken in two here, a file keeps it in one line). Blank lines and
messages of other roles are skipped, so a whole conversation is a script too. So is a
recorded trajectory: of its events the replies are played, and those that broke off, break off.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError

from contracts.chat import Reply
from contracts.errors import ModelUnavailable, OptionInvalid
from providers.usage import usage_from
from providers.wire_openai import AssistantMessage


@dataclass(frozen=True, kw_only=True)
class BrokenReply(Reply):
    """What was said of a reply that broke off."""

    why: str


@dataclass(frozen=True)
class Script:
    """The replies of one file, in order."""

    path: Path
    replies: tuple[Reply, ...]

    def reply(self, index: int) -> Reply:
        """The reply at `index`, counted from 0.

        Raises:
            ModelUnavailable: the script is at its end.
        """
        if index < len(self.replies):
            return self.replies[index]
        raise ModelUnavailable(
            f"scripted model {str(self.path)!r} has no reply left: "
            f"{len(self.replies)} replies, call {index + 1}"
        )


def read_script(path: Path) -> Script:
    """Read a file of replies whole.

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
            found = _reply(raw, number=len(replies) + 1)
        except (ValueError, RecursionError) as error:
            raise OptionInvalid(_refusal(path, place, error)) from error
        replies += [found] if found else []
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
    """None: nothing was said, and whoever asked, asked again or gave up."""


_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])
_ARRAY: TypeAdapter[list[JsonValue]] = TypeAdapter(list[JsonValue])


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Every entry as JSON text, and where it stands."""
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
    """The reply that an entry holds, or None when it holds something else."""
    entry = _OBJECT.validate_json(raw)
    if "kind" in entry:
        return _recorded(entry, number)
    if entry.get("role", "assistant") != "assistant":
        return None
    line = _ReplyLine.model_validate(entry)
    return _made(line, line.usage, line.stop_reason, number)


def _recorded(entry: dict[str, JsonValue], number: int) -> Reply | None:
    match entry["kind"]:
        case "reply":
            event = _ReplyEvent.model_validate(entry)
            return _made(event.message, event.usage, event.stop_reason, number)
        case "broken":
            broken = _BrokenEvent.model_validate(entry)
            if broken.message is None:
                return None
            return BrokenReply(message=broken.message.to_message(number), why=broken.why)
        case _:
            return None


def _made(
    said: AssistantMessage, usage: dict[str, JsonValue], stop_reason: str | None, number: int
) -> Reply:
    message = said.to_message(number)
    default = "tool_calls" if message.tool_calls else "stop"
    return Reply(message=message, usage=usage_from(usage), stop_reason=stop_reason or default)


def _refusal(path: Path, place: str, error: Exception) -> str:
    why = str(error)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        why = f"{field}: {first['msg']}" if field else first["msg"]
    return f"scripted model {str(path)!r}, {place}: {why}"
