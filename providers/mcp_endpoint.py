"""An MCP server with the tools of a toolbox, which the gateway passes an agent's calls on to.

It listens on loopback only and requires a bearer token, which no sandbox gets: the gateway checks
each call first (`gateway_tools.py`).
"""

import json
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from contracts.tool import McpEndpoint, Toolbox, ToolCall

if TYPE_CHECKING:
    import mcp_types
    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

_PATH = "/mcp"


@contextmanager
def serve_toolbox(toolbox: Toolbox) -> Iterator[McpEndpoint]:
    """Serve the tools until the block ends."""
    import uvicorn

    token = secrets.token_urlsafe(24)
    # Bound before the server starts, so that the port is known and taken.
    listener = socket.create_server(("127.0.0.1", 0))
    app = _server(toolbox).streamable_http_app(
        streamable_http_path=_PATH, json_response=True, stateless_http=True
    )
    config = uvicorn.Config(_require_token(app, token), log_level="critical", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        port = listener.getsockname()[1]
        yield McpEndpoint(url=f"http://127.0.0.1:{port}{_PATH}", token=token)
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()


def _server(toolbox: Toolbox) -> "Server[dict[str, object]]":
    import anyio.to_thread
    import mcp_types as types
    from mcp.server.lowlevel import Server

    names = {tool.name for tool in toolbox.tools}

    async def list_tools(_: object, __: object) -> "mcp_types.ListToolsResult":
        tools = [
            types.Tool(name=t.name, description=t.description, input_schema=dict(t.parameters))
            for t in toolbox.tools
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        _: object, params: "mcp_types.CallToolRequestParams"
    ) -> "mcp_types.CallToolResult":
        call = ToolCall(id="mcp", name=params.name, arguments=json.dumps(params.arguments or {}))
        text = f"error: no tool {call.name!r}"
        if call.name in names:
            text = await anyio.to_thread.run_sync(toolbox.run, call)
        content = types.TextContent(type="text", text=text)
        return types.CallToolResult(
            content=[content], is_error=text.startswith(("error: ", '{"error"'))
        )

    return Server("harness", on_list_tools=list_tools, on_call_tool=call_tool)


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
