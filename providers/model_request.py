"""What an agent asks a model for, whichever wire it came by."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from contracts.chat import ChatRequest
from contracts.json import as_mapping
from providers.wire_openai import message_to_openai, tools_to_openai

Json = Mapping[str, object]

STREAM_TIMEOUT_S = 180.0
"""How long a streaming model may say nothing."""

_IMAGE = 6_400
"""As many characters as an image of the usual size has tokens, four times 1,600."""


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One request. Messages and tools have OpenAI's form, with more kinds of content.

    `options` are arguments of litellm's `completion`. `silence_s` is how long the model
    may say nothing; without `stream` that is the time for the whole answer.
    """

    messages: Sequence[Json]
    tools: Sequence[Json] = ()
    options: Json = field(default_factory=lambda: MappingProxyType({}))
    stream: bool = False
    timeout_s: float = 600.0

    @classmethod
    def of(cls, request: ChatRequest) -> "ModelRequest":
        """The same as one of our own requests."""
        options: dict[str, object] = {}
        if request.max_tokens is not None:
            options["max_tokens"] = request.max_tokens
        if request.response_schema is not None:
            options["response_format"] = response_format(request.response_schema)
        return cls(
            messages=[message_to_openai(message) for message in request.messages],
            tools=tools_to_openai(request.tools),
            options=options,
            timeout_s=request.timeout_s,
        )

    @property
    def new_messages(self) -> Sequence[Json]:
        """The messages since the assistant last spoke."""
        said = [i for i, m in enumerate(self.messages) if m.get("role") == "assistant"]
        return self.messages[said[-1] + 1 :] if said else self.messages

    @property
    def characters(self) -> int:
        """Characters of everything that is said, about four of them a token, images too."""
        return sum(map(_size, (*self.messages, *self.tools)))

    @property
    def tool_names(self) -> list[str]:
        return [str(as_mapping(tool.get("function")).get("name", "")) for tool in self.tools]


def _size(said: Json) -> int:
    """An image is looked at, not read: how long its bytes are as text means nothing."""
    content = said.get("content")
    if not isinstance(content, list):
        return len(json.dumps(said))
    rest = [part for part in content if not as_mapping(part.get("image_url"))]
    return len(json.dumps({**said, "content": rest})) + _IMAGE * (len(content) - len(rest))


def response_format(schema: Json) -> Json:
    """A JSON Schema in the form that OpenAI and litellm take; Ollama gets it as `format`."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}


def content_text(content: object) -> str:
    """The text of a message's content, which may be text or a list of parts."""
    return content if isinstance(content, str) else "\n".join(_texts(content))


def _texts(content: object) -> Iterator[str]:
    for part in content if isinstance(content, list | tuple) else ():
        if isinstance(part, Mapping):
            yield str(part["text"]) if "text" in part else f"[{part.get('type', 'something')}]"
