"""The gateway's HTTP face: agents ask here, and only here is a provider's key.

    POST /v1/messages                 Anthropic Messages, streaming and not
    POST /v1/messages/count_tokens
    POST /v1/chat/completions         OpenAI Chat Completions, streaming and not
    POST /v1/embeddings               OpenAI embeddings, for ourselves only: memory asks
    GET  /v1/models                   the one model that the token is for
    GET  /health
    /admin/…                          runs and tokens, for the host only (gateway_admin.py)

Which model answers is the token's matter, whatever name the agent gives. The work is done
in threads: only taking bodies in and giving bytes out is asynchronous.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, closing
from itertools import chain
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from contracts.errors import ModelRefused, ModelUnavailable, OptionInvalid
from providers import wire_anthropic_answer, wire_anthropic_request, wire_chat
from providers.account import RequestRefused
from providers.answer_parts import AnswerPart, EndPart
from providers.embed import EmbeddingRequest
from providers.exchange import embed_exchange, exchange
from providers.gateway_admin import CheckModel, admin_routes
from providers.litellm_setup import litellm
from providers.model_failures import CONTEXT_OVERFLOW
from providers.model_request import Json, ModelRequest
from providers.open_runs import OpenRuns
from providers.pump import Pump
from providers.scripted import is_scripted

MAX_BODY_BYTES = 64 << 20
THREADS = 256
"""Requests under way at one time; one that streams holds a thread while the model thinks."""


class WireFormat(NamedTuple):
    """How one kind of agent asks, and is answered."""

    ask_from: Callable[[bytes], ModelRequest]
    body_from: Callable[[Iterator[AnswerPart], str], Json]
    events_from: Callable[[Iterator[AnswerPart], str], Iterator[bytes]]
    error_body: Callable[[str, int], Json]
    error_event: Callable[[str], bytes]
    overflow: str = ""
    """The error for a conversation that the model cannot hold; empty: a stop reason tells."""


_ANTHROPIC = WireFormat(
    wire_anthropic_request.read_request,
    wire_anthropic_answer.response_body,
    wire_anthropic_answer.response_events,
    wire_anthropic_answer.error_body,
    wire_anthropic_answer.error_event,
    "prompt is too long: the model cannot hold this conversation",
)
_OPENAI = WireFormat(
    wire_chat.read_request,
    wire_chat.response_body,
    wire_chat.response_events,
    wire_chat.error_body,
    wire_chat.error_event,
)
_FAILURES = (RequestRefused, ModelUnavailable, OptionInvalid, ValueError)


def gateway_app(ledger: OpenRuns, *, secret: str, check_model: CheckModel) -> Starlette:
    """The gateway as an ASGI app; `secret` opens its `/admin` routes."""

    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="request")
    endpoint = _in_threads(ledger, threads)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        threads.shutdown(wait=False, cancel_futures=True)

    return Starlette(
        lifespan=lifespan,
        routes=[
            Route("/", _health(ledger)),
            Route("/health", _health(ledger)),
            Route("/v1/models", endpoint(_OPENAI, _models)),
            Route("/v1/messages", endpoint(_ANTHROPIC, _answered), methods=["POST"]),
            Route(
                "/v1/messages/count_tokens",
                endpoint(_ANTHROPIC, _count_tokens),
                methods=["POST"],
            ),
            Route("/v1/chat/completions", endpoint(_OPENAI, _answered), methods=["POST"]),
            Route("/v1/embeddings", endpoint(_OPENAI, _embedded), methods=["POST"]),
            *admin_routes(ledger, secret=secret, check_model=check_model),
        ],
    )


_Endpoint = Callable[[Request], Awaitable[Response]]
_Parts = Generator[Response | bytes, None, None]
"""A whole response, or the events of one."""
_Work = Callable[[WireFormat, OpenRuns, str, bytes], _Parts]


def _in_threads(ledger: OpenRuns, executor: Executor) -> Callable[[WireFormat, _Work], _Endpoint]:
    """Makes endpoints that do their work in a thread."""

    def endpoint_for(wire: WireFormat, work: _Work) -> _Endpoint:
        async def endpoint(request: Request) -> Response:
            token = _token(request)
            try:
                with ledger.account(token).pending_body() as more:
                    body = await _body(request, more)
                    parts = _refusing(wire, work(wire, ledger, token, body))
                    taken = Pump(parts, executor).taken()
                    first = await anext(taken)
            except RequestRefused as error:
                return _failed(wire, error)
            if isinstance(first[0], Response):
                await taken.aclose()
                return first[0]
            return StreamingResponse(_bytes(first, taken), media_type="text/event-stream")

        return endpoint

    return endpoint_for


async def _bytes(
    first: list[Response | bytes], taken: AsyncGenerator[list[Response | bytes], None]
) -> AsyncIterator[bytes]:
    async with aclosing(taken):
        yield _joined(first)
        async for parts in taken:
            yield _joined(parts)


def _joined(parts: list[Response | bytes]) -> bytes:
    return b"".join(part for part in parts if isinstance(part, bytes))


def _refusing(wire: WireFormat, parts: _Parts) -> _Parts:
    """The same; what is refused before the first part is told as the wire tells it."""
    try:
        yield from parts
    except _FAILURES as error:
        yield _failed(wire, error)


def _answered(wire: WireFormat, ledger: OpenRuns, token: str, body: bytes) -> _Parts:
    account = ledger.account(token)
    ask = wire.ask_from(body)
    with closing(exchange(account, ask)) as answered:
        first = next(answered)  # what fails before the first piece is a status
        if wire.overflow and isinstance(first, EndPart) and first.stop_reason == CONTEXT_OVERFLOW:
            raise RequestRefused(wire.overflow, kind="request")
        pieces = chain((first,), answered)
        if not ask.stream:
            yield JSONResponse(wire.body_from(pieces, account.terms.model))
            return
        try:
            yield from wire.events_from(pieces, account.terms.model)
        except (ModelUnavailable, OptionInvalid) as error:
            yield wire.error_event(str(error))


def _count_tokens(wire: WireFormat, ledger: OpenRuns, token: str, body: bytes) -> _Parts:
    account = ledger.account(token)
    with account.free_request():
        model, ask = account.terms.model, wire.ask_from(body)
        counted = ask.characters // 4
        if not is_scripted(model):
            counted = litellm().token_counter(
                model=model, messages=list(ask.messages), tools=list(ask.tools) or None
            )
        yield JSONResponse({"input_tokens": counted})


def _embedded(_: WireFormat, ledger: OpenRuns, token: str, body: bytes) -> _Parts:
    account = ledger.account(token)
    made = embed_exchange(account, EmbeddingRequest.model_validate_json(body))
    rows = [
        {"object": "embedding", "index": index, "embedding": list(vector)}
        for index, vector in enumerate(made.vectors)
    ]
    counts = {"prompt_tokens": made.usage.input, "total_tokens": made.usage.total}
    head = {"object": "list", "model": account.terms.model}
    yield JSONResponse({**head, "data": rows, "usage": counts})


def _models(_: WireFormat, ledger: OpenRuns, token: str, __: bytes) -> _Parts:
    account = ledger.account(token)
    with account.free_request():
        model = account.terms.model
        one = {"id": model, "object": "model", "type": "model", "display_name": model}
        yield JSONResponse({"object": "list", "data": [one], "has_more": False})


def _health(ledger: OpenRuns) -> _Endpoint:
    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", "runs": ledger.count})

    return health


def _failed(wire: WireFormat, error: Exception) -> Response:
    """The one status that no client tries again, but for tokens, sizes and haste: we tried."""
    status = error.status if isinstance(error, RequestRefused) else 400
    kind = error.kind if isinstance(error, RequestRefused) else _kind(error)
    again = "true" if status == 429 else "false"
    headers = {"x-should-retry": again, "x-harness-error": kind}
    return JSONResponse(wire.error_body(_error_line(error), status), status, headers)


def _kind(error: Exception) -> str:
    match error:
        case ModelRefused():
            return "refused"
        case ModelUnavailable():
            return "model"
        case OptionInvalid():
            return "option"
        case _:
            return "request"


def _error_line(error: Exception) -> str:
    ours = isinstance(error, RequestRefused | ModelUnavailable | OptionInvalid)
    return str(error) if ours else f"the request is malformed: {str(error)[:500]}"


def _token(request: Request) -> str:
    bearer = request.headers.get("authorization", "").partition(" ")[2]
    return request.headers.get("x-api-key") or bearer.strip()


async def _body(request: Request, more: Callable[[int], None]) -> bytes:
    parts, size = [], 0
    try:
        async for part in request.stream():
            more(len(part))
            parts.append(part)
            size += len(part)
            if size > MAX_BODY_BYTES:
                raise RequestRefused(
                    f"more than {MAX_BODY_BYTES} bytes", kind="request", status=413
                )
    except ClientDisconnect as error:
        raise RequestRefused("gone before all was said", kind="request") from error
    return b"".join(parts)
