"""Clients of MCP servers, over a socket or streamable HTTP.

A server may be hostile: what it sends is bounded, each answer has a time limit, and its own
requests (to ask our model, or a person) are refused. The SDK is asynchronous, so each client has
an event loop in a thread of its own.
"""

import asyncio
import json
import logging
import socket
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
)
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from contracts.errors import McpUnavailable
from contracts.json import Json
from contracts.tool import Tool

# The SDK takes half a second to import, which runs without MCP servers need not pay.
if TYPE_CHECKING:
    import httpx2
    import mcp_types
    from anyio.from_thread import BlockingPortal
    from mcp.client._transport import TransportStreams
    from mcp.client.session import ClientSession

    _Transport = AbstractAsyncContextManager[TransportStreams]

MAX_MESSAGE_BYTES = 4 << 20
"""Bytes of one message."""

MAX_ANSWER_BYTES = 4 * MAX_MESSAGE_BYTES
"""Bytes that a server may send for one request, messages that nobody asked for included."""

_MAX_PAGES = 20
_MARGIN_S = 30.0
"""The session's own time limit is reached first."""


@dataclass(frozen=True)
class McpResult:
    """What a tool gave, as text."""

    text: str
    is_error: bool = False


class McpClient:
    """An open session with one server. Thread-safe."""

    def __init__(
        self,
        portal: "BlockingPortal",
        session: "ClientSession",
        intake: "_Intake",
    ) -> None:
        self._portal = portal
        self._session = session
        self._intake = intake

    def tools(self) -> tuple[Tool, ...]:
        """Return the server's tools, with the names and descriptions that it gives.

        Raises:
            McpUnavailable: it does not answer, or not as the protocol says.
        """
        import mcp_types as types

        found: list[Tool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            page = self._ask(types.ListToolsRequest(params=params), types.ListToolsResult)
            found += (
                Tool(name=t.name, description=t.description or "", parameters=t.input_schema)
                for t in page.tools
            )
            cursor = page.next_cursor
            if cursor is None:
                break
        return tuple(found)

    def call(self, name: str, arguments: Mapping[str, Json]) -> McpResult:
        """Call a tool.

        Raises:
            McpUnavailable: it does not answer in time, or not as the protocol says.
        """
        import mcp_types as types

        params = types.CallToolRequestParams(name=name, arguments=dict(arguments))
        # Not the session's `call_tool`: it would apply schemas and patterns of the server.
        result = self._ask(types.CallToolRequest(params=params), types.CallToolResult)
        parts = [_text(block) for block in result.content]
        if not parts and result.structured_content is not None:
            parts = [json.dumps(result.structured_content)]
        return McpResult("\n".join(parts), bool(result.is_error))

    def initialize(self) -> None:
        """Begin the session.

        Raises:
            McpUnavailable: as `tools`.
        """
        self._in_loop(self._session.initialize)

    def _ask(self, request: Any, kind: type[Any]) -> Any:
        self._intake.begin()
        return self._in_loop(self._session.send_request, request, kind)

    def _in_loop(self, function: Callable[..., Awaitable[Any]], *arguments: object) -> Any:
        from mcp.shared.exceptions import MCPError
        from pydantic import ValidationError

        try:
            return self._portal.call(function, *arguments)
        except ValidationError as error:
            message = f"its answer is not what the protocol says: {error.errors()[0]['msg']}"
            raise McpUnavailable(message) from None
        except (MCPError, RuntimeError) as error:
            raise McpUnavailable(self._intake.broken or str(error)) from None


@contextmanager
def socket_client(connection: socket.socket, *, timeout_s: float) -> Iterator[McpClient]:
    """Talk to a server that reads and writes a message a line, until the block ends.

    Raises:
        McpUnavailable: it does not answer as the protocol says, or takes longer than `timeout_s`.
    """
    intake = _Intake()
    with _client(_socket_streams(connection, intake), intake, timeout_s) as client:
        yield client


@contextmanager
def url_client(url: str, headers: Mapping[str, str], *, timeout_s: float) -> Iterator[McpClient]:
    """Talk to the server at a URL until the block ends.

    Raises:
        McpUnavailable: as `socket_client`.
    """
    intake = _Intake()
    with _client(_http_streams(url, headers, intake, timeout_s), intake, timeout_s) as client:
        yield client


@contextmanager
def _client(transport: "_Transport", intake: "_Intake", timeout_s: float) -> Iterator[McpClient]:
    from anyio.from_thread import start_blocking_portal

    for name in ("client", "mcp"):  # the SDK logs what a hostile server sends
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with start_blocking_portal(name="mcp-client") as portal, ExitStack() as stack:
        opening = portal.wrap_async_context_manager(_session(transport, timeout_s))
        session = opening.__enter__()
        # An error of the block is not the session's: its task groups would wrap it in groups.
        stack.callback(opening.__exit__, None, None, None)
        client = McpClient(portal, session, intake)
        client.initialize()
        yield client


@asynccontextmanager
async def _session(transport: "_Transport", timeout_s: float) -> AsyncIterator["ClientSession"]:
    import mcp_types as types
    from mcp.client.session import ClientSession

    us = types.Implementation(name="harness", version="1")
    async with (
        transport as (read, write),
        ClientSession(read, write, read_timeout_seconds=timeout_s, client_info=us) as session,
    ):
        yield session


class _Intake:
    """Counts what a server sends between two requests of ours."""

    def __init__(self) -> None:
        self._bytes = 0
        self.broken = ""
        """Why there is no answer to the last request; empty if the SDK knows it."""

    def begin(self) -> None:
        """Begin anew: we send a request."""
        self._bytes = 0
        self.broken = ""

    def allows(self, size: int) -> bool:
        """Count bytes. Return False if they are too many, which ends the connection."""
        self._bytes += size
        if self._bytes > MAX_ANSWER_BYTES:
            self.broken = f"it sent more than {MAX_ANSWER_BYTES >> 20} MiB for one request"
        return not self.broken


@asynccontextmanager
async def _socket_streams(
    connection: socket.socket, intake: _Intake
) -> AsyncGenerator["TransportStreams"]:
    """Yield streams of the messages on a connection; its end ends them."""
    import anyio
    from mcp.shared.message import SessionMessage

    reader, writer = await asyncio.open_connection(sock=connection, limit=MAX_MESSAGE_BYTES)
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        async with to_session:
            while line := await _line(reader, intake):
                message = _message(line)
                if message is not None:
                    await to_session.send(message)

    async def send() -> None:
        async with from_session:
            async for message in from_session:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode() + b"\n")
                try:
                    await writer.drain()
                except OSError:
                    return  # the server has ended, which `receive` sees too

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        try:
            yield incoming, outgoing
        finally:
            tasks.cancel_scope.cancel()
            incoming.close()
            outgoing.close()
            writer.transport.abort()


async def _line(reader: asyncio.StreamReader, intake: _Intake) -> bytes:
    """Return the next line; nothing at the end of the connection, or if it is to end."""
    try:
        line = await reader.readline()
    except ValueError:
        intake.broken = f"it sent a message of more than {MAX_MESSAGE_BYTES >> 20} MiB"
        return b""
    except OSError:
        return b""
    return line if intake.allows(len(line)) else b""


def _message(line: bytes) -> Any:
    """Return the message of a line; None for another line, such as a log's."""
    import mcp_types as types
    from mcp.shared.message import SessionMessage

    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


@asynccontextmanager
async def _http_streams(
    url: str, headers: Mapping[str, str], intake: _Intake, timeout_s: float
) -> AsyncGenerator["TransportStreams"]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    transport = _bounded_transport(intake)
    plain = {**headers, "accept-encoding": "identity"}
    async with (
        httpx2.AsyncClient(
            transport=transport, headers=plain, timeout=httpx2.Timeout(timeout_s + _MARGIN_S)
        ) as client,
        # A hostile server would keep us waiting for the answer to our last message.
        streamable_http_client(url, http_client=client, terminate_on_close=False) as streams,
    ):
        yield streams


def _bounded_transport(intake: _Intake) -> "httpx2.AsyncBaseTransport":
    import httpx2

    # An error would end the SDK's session with a group of errors: an answer without a body does
    # not, and `intake` has the reason.
    class Bounded(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            try:
                response = await super().handle_async_request(request)
            except httpx2.HTTPError as error:
                intake.broken = (
                    f"no answer from {request.url.host}: {error or type(error).__name__}"
                )
                return httpx2.Response(502)
            if response.headers.get("content-encoding", "identity") != "identity":
                await response.aclose()
                intake.broken = "it compresses its answers although asked not to"
                return httpx2.Response(502)  # a small body could become a gigantic one
            response.stream = Counted(response.stream)
            return response

    class Counted(httpx2.AsyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for chunk in self._stream:
                    if not intake.allows(len(chunk)):
                        return
                    yield chunk
            except httpx2.HTTPError as error:
                intake.broken = f"its answer broke off: {error or type(error).__name__}"

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Bounded()


def _text(block: "mcp_types.ContentBlock") -> str:
    """Return a piece of a result as text; pictures and sound by their size."""
    import mcp_types as types

    match block:
        case types.TextContent():
            return block.text
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return f"{resource.uri}\n{resource.text}"
        case types.ResourceLink():
            return f"[{block.name}: {block.uri}]"
        case types.ImageContent() | types.AudioContent():
            return f"[{block.type}, {len(block.data)} characters of base64, not shown]"
        case _:
            return f"[{block.type}, not shown]"
