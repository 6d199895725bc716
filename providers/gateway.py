"""The gateway's HTTP API for agents. Only this process holds the keys of providers.

    POST /v1/messages                 Anthropic Messages, streamed or not
    POST /v1/messages/count_tokens
    POST /v1/chat/completions         OpenAI Chat Completions, streamed or not
    POST /v1/responses                OpenAI Responses, streamed or not
    POST /v1beta/models/…:generateContent, :streamGenerateContent, :countTokens   Google
    POST /v1/embeddings               OpenAI embeddings, only for Harness itself
    GET  /v1/models                   the one model that the token is for
    POST /mcp                         tools of the host, over MCP: gateway_tools.py
    GET  /health
    /admin/…                          for the host only: gateway_admin.py

The token decides which model answers, whatever model the request names. A request takes one
thread from its body to its last byte.
"""

import asyncio
import socket
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, closing
from itertools import chain

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from contracts.agents import NATIVE
from contracts.chat import model_names
from contracts.errors import ModelRefused, ModelUnavailable, OptionInvalid
from contracts.model_access import INTERNAL_AGENT
from providers.account import Account, RequestRefused
from providers.call_model import CONTEXT_OVERFLOW
from providers.embed import EmbeddingRequest
from providers.exchange import embed_exchange, exchange
from providers.gateway_api import ERROR_HEADER
from providers.gateway_tools import pass_on
from providers.models import litellm
from providers.open_runs import CheckModel, OpenRuns, admin_routes
from providers.protocol import EndPart, WireFormat
from providers.scripted import is_scripted
from providers.wire_anthropic import ANTHROPIC
from providers.wire_google import GOOGLE, GOOGLE_STREAM
from providers.wire_openai import OPENAI
from providers.wire_responses import RESPONSES

MAX_BODY_BYTES = 64 << 20

_CONTEXT_OVERFLOW = "prompt is too long: the model cannot hold this conversation"
"""Agents recognize this error by its first words, and shorten the conversation."""

_READ_THE_STOP_REASON = (NATIVE, INTERNAL_AGENT)
"""Agents that read from a stop reason that the conversation is longer than the model's context."""

_THREADS = 256
"""Requests under way at the same time; each keeps its thread while the model thinks."""

_UNSENT_PARTS = 64
"""Parts of a response that may wait to be sent; then the thread waits too."""

_Endpoint = Callable[[Request], Awaitable[Response]]
_Output = Generator[Response | bytes, None, None]
"""One response, or the events of a streamed one."""
_Work = Callable[[WireFormat, Account, bytes], _Output]


def gateway_app(open_runs: OpenRuns, *, secret: str, check_model: CheckModel) -> Starlette:
    """Return the gateway as an ASGI app; `secret` opens its `/admin` routes."""
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="request")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        threads.shutdown(wait=False, cancel_futures=True)

    def route(path: str, wire: WireFormat, work: _Work, method: str = "POST") -> Route:
        return Route(path, _endpoint(open_runs, threads, wire, work), methods=[method])

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", "runs": open_runs.count})

    return Starlette(
        lifespan=lifespan,
        routes=[
            Route("/", health),
            Route("/health", health),
            route("/v1/models", OPENAI, _models, "GET"),
            route("/v1/messages", ANTHROPIC, _answer),
            route("/v1/messages/count_tokens", ANTHROPIC, _count_tokens),
            route("/v1/chat/completions", OPENAI, _answer),
            route("/v1/responses", RESPONSES, _answer),
            route("/v1beta/models/{model:path}:generateContent", GOOGLE, _answer),
            route("/v1beta/models/{model:path}:streamGenerateContent", GOOGLE_STREAM, _answer),
            route("/v1beta/models/{model:path}:countTokens", GOOGLE, _count_tokens),
            route("/v1/embeddings", OPENAI, _embed),
            route("/mcp", OPENAI, _use_tools),
            *admin_routes(open_runs, secret=secret, check_model=check_model),
        ],
    )


def _endpoint(open_runs: OpenRuns, threads: Executor, wire: WireFormat, work: _Work) -> _Endpoint:
    """Return an endpoint that checks the token, reads the body and does its work in a thread."""

    async def endpoint(request: Request) -> Response:
        try:
            account = open_runs.account(_token(request))
            with account.pending_body() as add_bytes:
                body = await _read_body(request, add_bytes)
                output = _in_thread(_errors_as_response(wire, work(wire, account, body)), threads)
                first = await anext(output)
        except RequestRefused as error:
            return _error_response(wire, error)
        if isinstance(first, Response):
            await output.aclose()
            return first
        return StreamingResponse(_events(first, output), media_type="text/event-stream")

    return endpoint


def _token(request: Request) -> str:
    bearer = request.headers.get("authorization", "").partition(" ")[2]
    named = (request.headers.get(name) for name in ("x-api-key", "x-goog-api-key"))
    return next(filter(None, named), bearer.strip())


async def _read_body(request: Request, add_bytes: Callable[[int], None]) -> bytes:
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            add_bytes(len(chunk))
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_BODY_BYTES:
                message = f"the request has more than {MAX_BODY_BYTES} bytes"
                raise RequestRefused(message, kind="request", status=413)
    except ClientDisconnect as error:
        raise RequestRefused("the client disconnected", kind="request") from error
    return b"".join(chunks)


def _answer(wire: WireFormat, account: Account, body: bytes) -> _Output:
    """Answer with the model, after its first part has arrived: until then errors have a status."""
    request, model = wire.read_request(body), account.spec.model
    with closing(exchange(account, request)) as parts:
        first = next(parts)
        overflow = isinstance(first, EndPart) and first.stop_reason == CONTEXT_OVERFLOW
        if overflow and account.spec.agent not in _READ_THE_STOP_REASON:
            raise RequestRefused(_CONTEXT_OVERFLOW, kind="request")
        answer = chain((first,), parts)
        if not request.stream:
            yield JSONResponse(wire.response_body(answer, model))
            return
        try:
            yield from wire.response_events(answer, model)
        except (ModelUnavailable, OptionInvalid) as error:
            yield wire.error_event(str(error))


def _count_tokens(wire: WireFormat, account: Account, body: bytes) -> _Output:
    with account.free_request():
        model, request = model_names(account.spec.model)[0], wire.read_request(body)
        tokens = request.characters // 4
        if not is_scripted(model):
            tokens = litellm().token_counter(
                model=model, messages=list(request.messages), tools=list(request.tools) or None
            )
        yield JSONResponse({"input_tokens": tokens, "totalTokens": tokens})  # Anthropic's, Google's


def _embed(_: WireFormat, account: Account, body: bytes) -> _Output:
    embeddings = embed_exchange(account, EmbeddingRequest.model_validate_json(body))
    rows = [
        {"object": "embedding", "index": index, "embedding": list(vector)}
        for index, vector in enumerate(embeddings.vectors)
    ]
    usage = {"prompt_tokens": embeddings.usage.input, "total_tokens": embeddings.usage.total}
    head = {"object": "list", "model": account.spec.model}
    yield JSONResponse({**head, "data": rows, "usage": usage})


def _models(_: WireFormat, account: Account, __: bytes) -> _Output:
    with account.free_request():
        model = account.spec.model
        entry = {"id": model, "object": "model", "type": "model", "display_name": model}
        yield JSONResponse({"object": "list", "data": [entry], "has_more": False})


def _use_tools(_: WireFormat, account: Account, body: bytes) -> _Output:
    yield pass_on(account, body)


def _errors_as_response(wire: WireFormat, output: _Output) -> _Output:
    """Yield the output; an error before its first part becomes a response."""
    try:
        yield from output
    except (RequestRefused, ModelUnavailable, OptionInvalid, ValueError) as error:
        yield _error_response(wire, error)


def _error_response(wire: WireFormat, error: Exception) -> Response:
    message, status = str(error), 400  # no client repeats a request that got 400: we did already
    match error:
        case RequestRefused():
            kind, status = error.kind, error.status
        case ModelRefused():
            kind = "refused"
        case ModelUnavailable():
            kind = "model"
        case OptionInvalid():
            kind = "option"
        case _:
            kind, message = "request", f"the request is malformed: {message[:500]}"
    headers = {"x-should-retry": "false", ERROR_HEADER: kind}
    if status == 429:  # other requests of this agent are under way
        headers |= {"x-should-retry": "true", "retry-after": "1"}
    return JSONResponse(wire.error_body(message, status), status, headers)


async def _in_thread(output: _Output, executor: Executor) -> AsyncGenerator[Response | bytes, None]:
    """Yield what a generator gives that runs in a thread, and close it there.

    Starlette's own `iterate_in_threadpool` changes threads for each part and does not close the
    generator when the client disconnects, which would leave the turn uncounted.
    """
    loop = asyncio.get_running_loop()
    ready: asyncio.Queue[Response | bytes | None] = asyncio.Queue()
    room = threading.Semaphore(_UNSENT_PARTS)
    abandoned = threading.Event()

    def run() -> None:
        with closing(output):
            for part in output:
                room.acquire()
                if abandoned.is_set():
                    return
                loop.call_soon_threadsafe(ready.put_nowait, part)

    running = loop.run_in_executor(executor, run)
    running.add_done_callback(lambda _: ready.put_nowait(None))
    try:
        while (part := await ready.get()) is not None:
            room.release()
            yield part
        await running  # raises what the generator raised
    finally:
        abandoned.set()
        room.release()


async def _events(
    first: bytes, rest: AsyncGenerator[Response | bytes, None]
) -> AsyncIterator[bytes]:
    async with aclosing(rest):
        yield first
        async for part in rest:
            if isinstance(part, bytes):
                yield part


_BACKLOG = 256

_THREAD_SWITCH_S = 0.0005
"""How long a thread that reads an answer keeps the one that sends it waiting. Python's 5 ms delay
each first byte by about as much."""


def serve(app: Starlette, place: str, *, ready: Callable[[str], None] = lambda _: None) -> None:
    """Serve until SIGTERM or SIGINT; `ready` gets the URL as soon as connections are accepted.

    `place` is `127.0.0.1:4180`; port 0 takes a free one.

    Raises:
        OSError: the port is taken.
    """
    sys.setswitchinterval(_THREAD_SWITCH_S)
    with listen(place) as listener:
        ready(url_of(listener))
        uvicorn.Server(uvicorn_config(app)).run(sockets=[listener])


def listen(place: str) -> socket.socket:
    """Return a socket that listens at `host:port`."""
    host, _, port = place.rpartition(":")
    listener = socket.create_server((host, int(port)), backlog=_BACKLOG)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # events are sent one by one
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the URL that clients use."""
    host, port = listener.getsockname()
    return f"http://{host}:{port}"


def uvicorn_config(app: Starlette) -> uvicorn.Config:
    """Return a configuration without access log, with 5 s for requests under way at the end."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
    )
