"""MCP server with the playbook tools, for agents that bring their own loop.

It listens on loopback only and requires a bearer token. A run's sandbox reaches it through the
supervisor's port, and no other run can write under this run's name.
"""

import json
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from contracts.tool import ToolCall
from memory.playbooks.library import Library
from memory.playbooks.recall import DEFAULT_RECALL_OPTIONS
from memory.playbooks.tools import ToolAccess, playbook_tools, run_playbook_tool
from memory.types import RecallOptions

if TYPE_CHECKING:
    import mcp_types
    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"


@dataclass(frozen=True, kw_only=True)
class PlaybookServer:
    """Port and token of a run's playbook server."""

    port: int
    token: str

    @property
    def url(self) -> str:
        """Its address on this host."""
        return f"http://127.0.0.1:{self.port}{PATH}"


@contextmanager
def serve_playbooks(
    library: Library,
    *,
    run_id: str,
    access: ToolAccess = "draft",
    options: RecallOptions = DEFAULT_RECALL_OPTIONS,
) -> Iterator[PlaybookServer]:
    """Serve the tools to one run until the block ends."""
    import uvicorn

    token = secrets.token_urlsafe(24)
    # Bound before the server starts, so that the port is known and taken.
    listener = socket.create_server(("127.0.0.1", 0))
    app = _server(library, run_id, access, options).streamable_http_app(
        streamable_http_path=PATH, json_response=True, stateless_http=True
    )
    config = uvicorn.Config(_require_token(app, token), log_level="critical", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield PlaybookServer(port=listener.getsockname()[1], token=token)
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()


def _server(
    library: Library, run_id: str, access: ToolAccess, options: RecallOptions
) -> "Server[dict[str, object]]":
    import anyio.to_thread
    import mcp_types as types
    from mcp.server.lowlevel import Server

    async def list_tools(_: object, __: object) -> "mcp_types.ListToolsResult":
        tools = [
            types.Tool(name=t.name, description=t.description, input_schema=dict(t.parameters))
            for t in playbook_tools(access)
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        _: object, params: "mcp_types.CallToolRequestParams"
    ) -> "mcp_types.CallToolResult":
        call = ToolCall(id="mcp", name=params.name, arguments=json.dumps(params.arguments or {}))
        run = partial(run_playbook_tool, run_id=run_id, access=access, options=options)
        text = await anyio.to_thread.run_sync(run, library, call)
        content = types.TextContent(type="text", text=text)
        return types.CallToolResult(content=[content], is_error='"error"' in text[:10])

    return Server("playbooks", on_list_tools=list_tools, on_call_tool=call_tool)


def _require_token(app: "ASGIApp", token: str) -> "ASGIApp":
    expected = f"Bearer {token}".encode()

    async def check_token(scope: "Scope", receive: "Receive", send: "Send") -> None:
        authorization = dict(scope.get("headers", ())).get(b"authorization", b"")
        # compare_digest takes the same time for every wrong token, so none can be guessed by its
        # time.
        if scope["type"] == "http" and not secrets.compare_digest(authorization, expected):
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"wrong or missing token"})
            return
        await app(scope, receive, send)

    return check_token
