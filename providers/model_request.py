"""A request to a model, whichever wire format the agent used."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from contracts.json import as_mapping

Json = Mapping[str, object]

STREAM_TIMEOUT_S = 180.0
"""Longest silence of a streaming model before its request fails."""

_IMAGE_CHARACTERS = 6_400
"""Characters that an image counts as: four for each of the 1,600 tokens of a usual one."""


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One request. Messages and tools have OpenAI's form, with more kinds of content.

    `options` are arguments of litellm's `completion`. `timeout_s` limits the whole answer,
    or with `stream` each silence of the model.
    """

    messages: Sequence[Json]
    tools: Sequence[Json] = ()
    options: Json = field(default_factory=lambda: MappingProxyType({}))
    stream: bool = False
    timeout_s: float = 600.0

    @property
    def new_messages(self) -> Sequence[Json]:
        """The messages after the last one of the assistant."""
        for place in range(len(self.messages), 0, -1):
            if self.messages[place - 1].get("role") == "assistant":
                return self.messages[place:]
        return self.messages

    @property
    def characters(self) -> int:
        """Characters of all messages and tools; four of them are about one token."""
        return sum(map(_characters, (*self.messages, *self.tools)))

    @property
    def tool_names(self) -> list[str]:
        return [str(as_mapping(tool.get("function")).get("name", "")) for tool in self.tools]


def _characters(message: Json) -> int:
    content = message.get("content")
    if not isinstance(content, list):
        return len(json.dumps(message))
    # Providers bill an image by its pixels, not by the length of its base64 text.
    rest = [part for part in content if not as_mapping(part.get("image_url"))]
    images = len(content) - len(rest)
    return len(json.dumps({**message, "content": rest})) + _IMAGE_CHARACTERS * images
