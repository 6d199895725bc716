"""The gateway's `/mcp`: passes an agent's calls on to the tools of its run, after the guard.

The model's own calls were decided about when the model made them. Any program in the sandbox can
talk to this endpoint, so a call that the model did not make, or made with other arguments, is
decided about here. The server behind it offers only the tools that the node allows.
"""

from secrets import token_hex
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field, JsonValue
from starlette.responses import JSONResponse, Response

from contracts.json import canonical_json
from contracts.model_access import HostTools
from contracts.tool import Denied, ToolCall
from providers.account import Account, RequestRefused
from providers.exchange import write_decision

if TYPE_CHECKING:
    import httpx

_CALL = "tools/call"
_CONNECT_S = 30.0


class _Params(BaseModel, frozen=True):
    name: str = ""
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class _Message(BaseModel, frozen=True):
    """One message of an MCP client; a batch is refused."""

    method: str = ""
    id: int | str | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)


def pass_on(account: Account, body: bytes) -> Response:
    """Return the answer of the agent's tools, or the guard's refusal.

    Raises:
        RequestRefused: the agent has no tools on the host, too many requests are under way, or its
            run has ended.
        ValueError: this is no message.
    """
    tools = account.spec.tools
    if tools is None:
        raise RequestRefused("this token is for no tools", kind="token", status=404)
    message = _Message.model_validate_json(body)
    with account.free_request():
        if message.method == _CALL:
            denied = _decide(account, tools, _Params.model_validate(message.params))
            if denied is not None:
                return _refusal(message, denied)
        answer = _ask(tools, body)
    return Response(
        answer.content, answer.status_code, media_type=answer.headers.get("content-type")
    )


def _decide(account: Account, tools: HostTools, params: _Params) -> Denied | None:
    arguments = canonical_json(params.arguments)
    call = ToolCall(
        id=f"direct-{token_hex(4)}", name=tools.prefix + params.name, arguments=arguments
    )
    if account.use_permit(call):
        return None
    decision = account.decide(call)
    write_decision(account, call, decision, arguments=arguments)
    if isinstance(decision, Denied):
        account.count_decision(call, decision)
        return decision
    return None


def _refusal(message: _Message, denied: Denied) -> Response:
    content = [{"type": "text", "text": f"denied: {denied.message}"}]
    result = {"content": content, "isError": True}
    return JSONResponse({"jsonrpc": "2.0", "id": message.id, "result": result})


def _ask(tools: HostTools, body: bytes) -> "httpx.Response":
    import httpx

    headers = {
        "authorization": f"Bearer {tools.endpoint.token}",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
    }
    try:
        return httpx.post(
            tools.endpoint.url,
            content=body,
            headers=headers,
            timeout=httpx.Timeout(_CONNECT_S, read=None),  # the run bounds how long a tool takes
            trust_env=False,
        )
    except httpx.HTTPError as error:
        raise RequestRefused(
            "the run of these tools has ended", kind="token", status=404
        ) from error
