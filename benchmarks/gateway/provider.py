"""A provider that streams at once: `python -m benchmarks.gateway.provider`.

The model's name says what it streams: `gpt-4o-<chunks>x<bytes>@<pause in ms>`.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from providers.gateway import serve

_HEAD = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
_USAGE = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}


async def _events(chunks: int, size: int, pause_s: float) -> AsyncIterator[bytes]:
    for number in range(chunks):
        if pause_s:
            await asyncio.sleep(pause_s)
        yield _chunk({"role": "assistant", "content": f"{number:06}".ljust(size, "x")})
    yield _chunk({}, "stop")
    yield _event({**_HEAD, "choices": [], "usage": _USAGE})
    yield b"data: [DONE]\n\n"


def _chunk(delta: dict[str, object], reason: str | None = None) -> bytes:
    return _event({**_HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


def _event(data: dict[str, object]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


async def _answer(request: Request) -> Response:
    model = (await request.json())["model"]
    numbers = re.search(r"(\d+)x(\d+)@(\d+)$", model)
    chunks, size, pause_ms = map(int, numbers.groups()) if numbers else (20, 20, 0)
    return StreamingResponse(_events(chunks, size, pause_ms / 1000), media_type="text/event-stream")


if __name__ == "__main__":
    routes = [Route("/chat/completions", _answer, methods=["POST"])]
    serve(Starlette(routes=routes), "127.0.0.1:0", ready=lambda url: print(url, flush=True))
