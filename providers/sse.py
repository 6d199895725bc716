"""Server-sent events."""

import json
from collections.abc import Mapping

SSE_COMMENT = b": waiting\n\n"
"""Says nothing to whoever reads; the line stays open."""


def sse_event(data: Mapping[str, object], *, name: str | None = None) -> bytes:
    """One event; `name` is left out where the wire has no names."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
