"""A wire format: how one kind of client writes requests and reads answers."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from providers.answer_parts import AnswerPart
from providers.model_request import Json, ModelRequest

SSE_COMMENT = b": waiting\n\n"
"""A server-sent event that clients ignore; it keeps the connection open."""

_INLINE_DATA = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,")


class WireFormat(NamedTuple):
    """Reads requests and writes answers and errors. The text arguments are model and message."""

    read_request: Callable[[bytes], ModelRequest]
    response_body: Callable[[Iterator[AnswerPart], str], Json]
    response_events: Callable[[Iterator[AnswerPart], str], Iterator[bytes]]
    error_body: Callable[[str, int], Json]
    error_event: Callable[[str], bytes]
    context_overflow: str = ""
    """Error for a conversation longer than the model's context; empty: a stop reason says it."""


def sse_event(data: Mapping[str, object], *, name: str | None = None) -> bytes:
    """Return one server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def image_part(url: object) -> Json:
    """Return an image whose bytes are in the URL itself, or else a text in its place.

    Any other URL would be fetched by this process or by the provider, past the network rules
    of the sandbox.
    """
    head = _INLINE_DATA.match(url) if isinstance(url, str) else None
    # A second colon may begin an address: some providers look for one anywhere in the text.
    if head is None or ":" in str(url)[head.end() :]:
        return unsupported_part("image")
    return {"type": "image_url", "image_url": {"url": url}}


def unsupported_part(kind: object) -> Json:
    """Return the text that a model gets in place of content that it cannot be given."""
    return {"type": "text", "text": f"[{kind} that this model cannot be shown]"}
