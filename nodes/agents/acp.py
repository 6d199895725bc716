"""Agents that speak the Agent Client Protocol (ACP): JSON-RPC on their standard streams.

The messages are those of the official SDK, and the dialogue is one generator, led by the thread
that reads the agent's output. The SDK's own connection is asynchronous: it would buffer what a
hostile agent sends without limit, and it logs errors instead of raising them.

Files and terminals are not offered to the agent: it is in the sandbox and uses them there itself.
"""

import json
import re
from collections.abc import Generator, Mapping
from string import Template

from acp.exceptions import RequestError
from acp.meta import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_VERSION
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    AuthenticateRequest,
    ClientCapabilities,
    DeniedOutcome,
    HttpHeader,
    HttpMcpServer,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    LoadSessionRequest,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SessionNotification,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
)
from pydantic import BaseModel, ValidationError

from contracts.json import as_mapping
from contracts.model_access import OpenModelAccess
from nodes.agents.agent_process import LaunchCommand
from nodes.agents.cli import (
    GATEWAY_PORT,
    MCP_SERVER_NAME,
    AgentProgram,
    LaunchContext,
    cli_agent,
)
from nodes.agents.cli_output import AgentActivity, Event, result_marker
from nodes.agents.table import AgentRow, agent_rows
from nodes.agents.types import Agent, OnLine
from nodes.text import one_line

_CLIENT = Implementation(name="harness", version="1")
_FAILED_STOPS: Mapping[str, str] = {
    "max_tokens": "the model's answer was cut off",
    "max_turn_requests": "turn limit reached",
    "refusal": "the model refused to continue",
    "cancelled": "it stopped by itself",
}


_Dialogue = Generator[tuple[str, BaseModel], object, None]
"""Yields requests to the agent as method and parameters, and is sent their results."""


def acp_agent(
    name: str,
    open_access: OpenModelAccess,
    *,
    port: int = GATEWAY_PORT,
    on_line: OnLine = lambda _: None,
) -> Agent:
    """Return the agent of this name in the table; see `cli_agent`."""
    return cli_agent(acp_program(name), open_access, port=port, on_line=on_line)


def acp_program(name: str) -> AgentProgram:
    """Return how to start the agent of this name, and how to talk to it."""
    row = agent_rows()[name]
    return AgentProgram(
        name=name,
        launch=lambda context: _launch(row, context),
        parser=lambda activity, context: AcpDialogue(name, row, activity, context),
    )


def _launch(row: AgentRow, context: LaunchContext) -> LaunchCommand:
    known = {"home": context.home, "url": context.url, "token": context.token}

    def filled(texts: Mapping[str, str]) -> dict[str, str]:
        return {name: Template(text).substitute(known) for name, text in texts.items()}

    files = {f"{context.home}/{name}": text for name, text in filled(row.files).items()}
    return LaunchCommand(
        argv=row.command,
        env=filled(row.env),
        stdin=context.input,
        files={**files, **(context.tool_files() if row.tool_commands else {})},
    )


class AcpDialogue:
    """One prompt, from `initialize` to the agent's last word."""

    def __init__(
        self, name: str, row: AgentRow, activity: AgentActivity, context: LaunchContext
    ) -> None:
        self._name = name
        self._row = row
        self._activity = activity
        self._context = context
        self._failure: str | None = f"{name} ended without an answer"
        self._requests = 0
        self._awaited = ""
        self._prompted = False
        self._text: list[str] = []
        self._message: str | None = None
        self._failed = False
        self.denied = 0
        self.last_result_marker: str | None = None
        self._dialogue = self._talk()
        self._request(*next(self._dialogue))

    def take(self, event: Event) -> None:
        """Take one message: a request or notification of the agent, or its answer to ours."""
        self.last_result_marker = None
        method = event.get("method")
        if method == CLIENT_METHODS["session_update"]:
            self._take_update(event.get("params"))
        elif method is not None and "id" in event:
            self._reply(event["id"], method, event.get("params"))
        elif method is None and event.get("id") == self._awaited:
            self._continue(event)

    def failure(self) -> str | None:
        """Success is an answer to the prompt with the stop reason `end_turn`."""
        self._flush_text()  # of an agent that was killed in the middle of a message
        return self._failure

    def _talk(self) -> _Dialogue:
        context, task, cwd = self._context, self._context.task, self._context.work_dir
        agent = InitializeResponse.model_validate(
            (
                yield (
                    "initialize",
                    InitializeRequest(
                        protocol_version=PROTOCOL_VERSION,
                        client_capabilities=ClientCapabilities(),
                        client_info=_CLIENT,
                    ),
                )
            )
        )
        if self._row.auth:
            yield "authenticate", AuthenticateRequest(method_id=self._row.auth)
        can_load = agent.agent_capabilities is not None and agent.agent_capabilities.load_session
        servers = self._mcp_servers()
        session, texts = "", [context.system, task.prompt]
        if context.resumes and can_load:
            session, texts = context.session, [context.prompt]
            yield (
                "session_load",
                LoadSessionRequest(cwd=cwd, session_id=session, mcp_servers=[*servers]),
            )
        else:
            made = yield (
                "session_new",
                NewSessionRequest(cwd=cwd, mcp_servers=[*servers]),
            )
            session = NewSessionResponse.model_validate(made).session_id
            if self._row.name_session:
                named = TextContentBlock(type="text", text=self._row.name_session)
                yield "session_prompt", PromptRequest(session_id=session, prompt=[named])
        self._activity.session = session
        self._prompted = True
        prompt = (TextContentBlock(type="text", text=text) for text in texts if text)
        done = yield "session_prompt", PromptRequest(session_id=session, prompt=[*prompt])
        self._flush_text()
        reason = PromptResponse.model_validate(done).stop_reason
        self._failure = _FAILED_STOPS.get(reason)
        if self._failed:
            self._failure = f"{self._name} failed: {one_line(self._activity.output, 300)}"

    def _mcp_servers(self) -> list[HttpMcpServer]:
        context = self._context
        if context.toolbox is None or self._row.tool_commands:
            return []
        bearer = HttpHeader(name="Authorization", value=context.mcp_authorization)
        url = context.mcp_url
        return [HttpMcpServer(type="http", name=MCP_SERVER_NAME, url=url, headers=[bearer])]

    def _continue(self, answer: Event) -> None:
        """Go on with the dialogue after the answer to the last request; at its end, hang up."""
        try:
            if "error" in answer:
                error = as_mapping(answer["error"])
                text = f"{error.get('message', '')} {json.dumps(error.get('data', ''))}"
                self._failure = f"{self._name} failed: {one_line(text, 300)}"
            else:
                self._request(*self._dialogue.send(answer.get("result")))
                return
        except ValidationError as error:
            self._failure = f"{self._name} answered what is no ACP: {one_line(str(error), 200)}"
        except StopIteration:
            pass
        self._awaited = ""
        self._context.input.close()

    def _request(self, method: str, params: BaseModel) -> None:
        self._requests += 1
        self._awaited = f"harness-{self._requests}"
        head = {"id": self._awaited, "method": AGENT_METHODS[method]}
        self._send({**head, "params": _dumped(params)})

    def _reply(self, number: object, method: object, params: object) -> None:
        try:
            if method != CLIENT_METHODS["session_request_permission"]:
                raise RequestError.method_not_found(str(method))
            request = RequestPermissionRequest.model_validate(params)
            self._take_call(request.tool_call)
            result = _permission(request)
        except RequestError as error:
            self._send({"id": number, "error": error.to_error_obj()})
        except ValidationError:
            self._send({"id": number, "error": RequestError.invalid_params().to_error_obj()})
        else:
            self._send({"id": number, "result": _dumped(result)})

    def _send(self, message: Mapping[str, object]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        self._context.input.write(line.encode())

    def _take_update(self, params: object) -> None:
        """Take an update of this prompt. A loaded session begins with updates of its past."""
        if not self._prompted:
            return
        try:
            update = SessionNotification.model_validate(params).update
        except ValidationError:
            return  # a kind of update that this version of the SDK does not know
        sign = self._row.failed_sign
        self._failed |= bool(sign and re.search(sign, json.dumps(params)))
        match update:
            case AgentMessageChunk(content=TextContentBlock(text=text), message_id=message):
                if message != self._message:
                    self._flush_text()
                self._message = message
                self._text.append(text)
            case ToolCallStart() | ToolCallProgress():
                self._flush_text()
                self._take_call(update)

    def _flush_text(self) -> None:
        text, self._text = "".join(self._text), []
        hidden = self._row.hidden_text
        if hidden is None or not text.startswith(hidden):
            self._activity.on_text(text)

    def _take_call(self, update: ToolCallStart | ToolCallUpdate) -> None:
        call_id = update.tool_call_id
        if update.status in ("completed", "failed"):
            self._activity.on_tool_end(call_id, "ok" if update.status == "completed" else "error")
            idle = not self._activity.unfinished_calls
            if idle and update.status == "completed":
                self.last_result_marker = result_marker(self._row.ended_call, call_id)
            return
        if update.title:
            self._activity.on_tool_start(call_id, *_shown(update.title, update))


def _shown(title: str, call: ToolCallStart | ToolCallUpdate) -> tuple[str, object]:
    """Return name and arguments for the live line. Some agents give a sentence as the title."""
    name = title.partition(" · ")[0]  # goose: "shell · ls -l"
    if len(name.split()) <= 1:
        return name, call.raw_input
    return call.kind or "tool", {"command": title, **as_mapping(call.raw_input)}


def _permission(request: RequestPermissionRequest) -> RequestPermissionResponse:
    """Allow the call once: the gateway's guard decided about it before the agent saw it."""
    once = (option.option_id for option in request.options if option.kind == "allow_once")
    chosen = next(once, None)
    if chosen is None:
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
    return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))


def _dumped(message: BaseModel) -> dict[str, object]:
    return message.model_dump(mode="json", by_alias=True, exclude_none=True)
