"""pi: the `pi` command line in the sandbox.

A repository must not make it run anything, so extensions, skills, prompt templates, themes,
context files and project settings are off. It has no limits of its own; the gateway enforces them.
"""

import json

from contracts.json import text_at
from contracts.model_access import OpenModelAccess
from nodes.agents.agent_process import LaunchCommand
from nodes.agents.allowed_tools import allowed_tool_names
from nodes.agents.cli import GATEWAY_PORT, AgentProgram, LaunchContext, cli_agent
from nodes.agents.cli_output import AgentActivity, Event, content_blocks, result_marker
from nodes.agents.types import Agent, OnLine
from nodes.text import one_line

_FLAGS = (
    *("--mode", "json", "--offline", "--no-approve"),
    *("--no-extensions", "--no-skills", "--no-prompt-templates", "--no-themes"),
    "--no-context-files",
)
_PROVIDER = "gateway"
_MODEL = "model"
"""Placeholder: the gateway's token determines the model."""

_ENDED_CALL = '"toolCallId":"$call"'
_CONTEXT_TOKENS = 200_000
_MAX_OUTPUT_TOKENS = 16_000


def pi(
    open_access: OpenModelAccess, *, port: int = GATEWAY_PORT, on_line: OnLine = lambda _: None
) -> Agent:
    """Return the agent `pi`; see `cli_agent`."""
    return cli_agent(PI, open_access, port=port, on_line=on_line)


def _launch(context: LaunchContext) -> LaunchCommand:
    task, toolbox, config = context.task, context.toolbox, f"{context.home}/config"
    host_tools = [tool.name for tool in toolbox.tools] if toolbox else []
    tools = ",".join((*allowed_tool_names("pi", task.allowed_tools), *host_tools))
    system = f"{context.home}/system.md"
    files = {
        f"{config}/models.json": _models(context),
        **({system: context.system} if context.system else {}),
        **(context.tool_files() if toolbox else {}),
    }
    return LaunchCommand(
        argv=("pi", *_FLAGS, "--provider", _PROVIDER, "--model", _MODEL)
        + ("--session-dir", f"{context.home}/sessions", "--session-id", context.session)
        + (("--tools", tools) if tools else ("--no-tools",))
        + (("--extension", f"{context.home}/host_tools.mjs") if toolbox else ())
        + (("--append-system-prompt", system) if context.system else ()),
        env={"PI_CODING_AGENT_DIR": config, "PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
        stdin=context.prompt,
        files=files,
    )


def _models(context: LaunchContext) -> str:
    model = {"id": _MODEL, "contextWindow": _CONTEXT_TOKENS, "maxTokens": _MAX_OUTPUT_TOKENS}
    provider = {"baseUrl": context.url, "api": "anthropic-messages", "apiKey": context.token}
    return json.dumps({"providers": {_PROVIDER: {**provider, "models": [model]}}})


class _JsonModeParser:
    """Parses `--mode json`. pi exits with 0 even if the model failed."""

    def __init__(self, activity: AgentActivity) -> None:
        self._activity = activity
        self._last: Event | None = None
        self.denied = 0
        self.last_result_marker: str | None = None

    def take(self, event: Event) -> None:
        self.last_result_marker = None
        match event.get("type"):
            case "message_end" if text_at(event, "message", "role") == "assistant":
                self._last = event
                for block in content_blocks(event.get("message")):
                    self._activity.on_text(text_at(block, "text"))
            case "tool_execution_start":
                call_id, name = text_at(event, "toolCallId"), text_at(event, "toolName")
                self._activity.on_tool_start(call_id, name, event.get("args"))
            case "tool_execution_end":
                call_id = text_at(event, "toolCallId")
                note = "error" if event.get("isError") is True else "ok"
                self._activity.on_tool_end(call_id, note)
                idle = not self._activity.unfinished_calls
                self.last_result_marker = result_marker(_ENDED_CALL, call_id) if idle else None

    def failure(self) -> str | None:
        """Success is a last message with the stop reason `stop`."""
        if self._last is None:
            return "pi ended without an answer from the model"
        reason = text_at(self._last, "message", "stopReason")
        if reason == "stop":
            return None
        message = text_at(self._last, "message", "errorMessage")
        text = one_line(message or self._activity.output, 300)
        return f"pi failed: {reason or 'no stop reason'}: {text}"


PI = AgentProgram(name="pi", launch=_launch, parser=lambda activity, _: _JsonModeParser(activity))
