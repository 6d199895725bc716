"""The playbook tools as an MCP server, for agents that bring their own loop.

It listens on loopback only and takes one bearer token: a run's sandbox reaches it through the
supervisor's port, and no other run may write under this run's name.
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
from memory.around_run import RecallOptions
from memory.playbooks.library import Library
from memory.playbooks.tools import (
    DEFAULT_RECALL_OPTIONS,
    ToolAccess,
    playbook_tools,
    run_playbook_tool,
)

if TYPE_CHECKING:
    import mcp_types
    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"


@dataclass(frozen=True, kw_only=True)
class PlaybookServer:
    """Where a run's playbook server listens, and what opens it."""

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
    """Serve the tools to one run as long as the block lasts."""
    import uvicorn

    token = secrets.token_urlsafe(24)
    door = socket.create_server(("127.0.0.1", 0))
    served = PlaybookServer(port=door.getsockname()[1], token=token)
    app = _guarded(
        _server(library, run_id, access, options).streamable_http_app(
            streamable_http_path=PATH, json_response=True, stateless_http=True
        ),
        token,
    )
    config = uvicorn.Config(app, log_level="critical", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        door.close()


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


def _guarded(app: "ASGIApp", token: str) -> "ASGIApp":
    expected = f"Bearer {token}".encode()

    async def guard(scope: "Scope", receive: "Receive", send: "Send") -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "http" and not secrets.compare_digest(given, expected):
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"wrong or missing token"})
            return
        await app(scope, receive, send)

    return guard
