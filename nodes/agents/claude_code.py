"""claude-code: the `claude` command line in the sandbox.

A repository must not make it run anything, so its settings, hooks, skills, plugins and memory are
off (`--safe-mode`, no setting sources, no MCP servers but Harness's). Bare mode would do this,
too, but it lacks the tools Write, Grep and Glob. Safe mode disables Harness's own MCP server as
well; a run that needs the server relies on the other flags.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType

from contracts.json import text_at
from contracts.model_access import OpenModelAccess
from nodes.agents.agent_process import LaunchCommand
from nodes.agents.allowed_tools import allowed_tool_names
from nodes.agents.cli import (
    GATEWAY_PORT,
    MCP_SERVER_NAME,
    AgentProgram,
    LaunchContext,
    cli_agent,
)
from nodes.agents.cli_output import AgentActivity, Event, content_blocks, result_marker
from nodes.agents.types import Agent, OnLine
from nodes.text import one_line

_FLAGS = (
    *("--print", "--output-format", "stream-json", "--verbose"),
    *("--setting-sources", "", "--strict-mcp-config", "--disable-slash-commands"),
    *("--permission-mode", "dontAsk"),
)
_ENV: Mapping[str, str] = MappingProxyType(
    {
        "API_TIMEOUT_MS": "1800000",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",  # the gateway has its own retries
        "DISABLE_AUTOUPDATER": "1",
    }
)
_MODEL = "sonnet"
"""Placeholder: the gateway's token determines the model."""

_ENDED_CALL = '"tool_use_id":"$call"'


def claude_code(
    open_access: OpenModelAccess, *, port: int = GATEWAY_PORT, on_line: OnLine = lambda _: None
) -> Agent:
    """Return the agent `claude-code`; see `cli_agent`."""
    return cli_agent(CLAUDE_CODE, open_access, port=port, on_line=on_line)


def _launch(context: LaunchContext) -> LaunchCommand:
    task, toolbox = context.task, context.toolbox
    own = allowed_tool_names("claude-code", task.allowed_tools)
    host_tools = toolbox.tools if toolbox else ()
    allowed = [*own, *(f"mcp__{MCP_SERVER_NAME}__{tool.name}" for tool in host_tools)]
    tools = ("--tools", ",".join(own), "--allowedTools", ",".join(allowed))
    system, mcp = f"{context.home}/system.md", f"{context.home}/mcp.json"
    isolation = ("--mcp-config", mcp) if toolbox else ("--safe-mode",)
    files = {system: context.system} if context.system else {}
    session = ("--resume" if context.resumes else "--session-id", context.session)
    turns = () if task.limits.turns is None else ("--max-turns", str(task.limits.turns))
    appended = ("--append-system-prompt-file", system) if context.system else ()
    return LaunchCommand(
        argv=(
            *("claude", *_FLAGS, *session, *isolation, *tools),
            *("--model", _MODEL, *turns, *appended),
        ),
        env={
            **_ENV,
            "ANTHROPIC_BASE_URL": context.url,
            "ANTHROPIC_API_KEY": context.token,
            "CLAUDE_CONFIG_DIR": f"{context.home}/config",
        },
        stdin=context.prompt,
        files={**files, mcp: _mcp_config(context)} if toolbox else files,
    )


def _mcp_config(context: LaunchContext) -> str:
    headers = {"Authorization": context.mcp_authorization}
    server = {"type": "http", "url": context.mcp_url, "headers": headers}
    return json.dumps({"mcpServers": {MCP_SERVER_NAME: server}})


class _StreamJsonParser:
    """Parses `--output-format stream-json`."""

    def __init__(self, activity: AgentActivity) -> None:
        self._activity = activity
        self._result: Event | None = None
        self.denied = 0
        self.last_result_marker: str | None = None

    def take(self, event: Event) -> None:
        self.last_result_marker = None
        match event.get("type"):
            case "assistant":
                self._take_message(event)
            case "user":
                self._take_tool_results(event)
            case "result":
                self._result = event
                denials = event.get("permission_denials")
                self.denied = len(denials) if isinstance(denials, list) else 0
            case "system" if event.get("subtype") == "api_retry":
                self._activity.on_line("the model call is retried")

    def failure(self) -> str | None:
        """Only the result event counts: the exit code does not tell success from failure."""
        if self._result is None:
            return "claude ended without a result"
        subtype = text_at(self._result, "subtype")
        if subtype == "success" and self._result.get("is_error") is False:
            return None
        if subtype == "error_max_turns":
            return "turn limit reached"
        text = one_line(text_at(self._result, "result") or self._activity.output, 300)
        return f"claude failed: {subtype if subtype != 'success' else 'error'}: {text}"

    def _take_message(self, event: Event) -> None:
        for block in content_blocks(event.get("message")):
            if block.get("type") == "text":
                self._activity.on_text(text_at(block, "text"))
            elif block.get("type") == "tool_use":
                call_id, name = text_at(block, "id"), text_at(block, "name")
                self._activity.on_tool_start(call_id, name, block.get("input"))

    def _take_tool_results(self, event: Event) -> None:
        for block in content_blocks(event.get("message")):
            if block.get("type") == "tool_result":
                call_id = text_at(block, "tool_use_id")
                note = "error" if block.get("is_error") is True else "ok"
                self._activity.on_tool_end(call_id, note)
                idle = not self._activity.unfinished_calls
                self.last_result_marker = result_marker(_ENDED_CALL, call_id) if idle else None


CLAUDE_CODE = AgentProgram(
    name="claude-code",
    launch=_launch,
    parser=lambda activity, _: _StreamJsonParser(activity),
)
