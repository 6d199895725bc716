"""pi: the `pi` command line in the sandbox.

Extensions, skills, prompt templates, themes, context files and project settings are off: a
repository cannot make it run anything. It knows no limits; the gateway does.
"""

import json

from contracts.json import text_at
from contracts.model_access import OpenModelAccess
from nodes.agents.activity import AgentActivity
from nodes.agents.agent_process import LaunchCommand
from nodes.agents.allowed_tools import allowed_tool_names
from nodes.agents.cli import GATEWAY_PORT, AgentProgram, LaunchContext, cli_agent
from nodes.agents.events import Event, content_blocks, result_marker
from nodes.agents.lines import one_line
from nodes.agents.types import Agent, OnLine

_FLAGS = (
    *("--mode", "json", "--offline", "--no-approve"),
    *("--no-extensions", "--no-skills", "--no-prompt-templates", "--no-themes"),
    "--no-context-files",
)
_PROVIDER = "gateway"
_MODEL = "model"
"""What it asks for; which model answers is the token's matter."""

_CONTEXT = 200_000
_MOST_OUTPUT = 16_000


def pi(
    open_gate: OpenModelAccess, *, port: int = GATEWAY_PORT, on_line: OnLine = lambda _: None
) -> Agent:
    """The agent `pi`; see `cli_agent`."""
    return cli_agent(PI, open_gate, port=port, on_line=on_line)


def _launch(order: LaunchContext) -> LaunchCommand:
    task, config = order.task, f"{order.home}/config"
    toolbox = order.toolbox
    added = [tool.name for tool in toolbox.tools] if toolbox else []
    tools = ",".join((*allowed_tool_names("pi", task.allowed_tools), *added))
    system = f"{order.home}/system.md"
    files = {
        f"{config}/models.json": _models(order),
        **({system: order.system} if order.system else {}),
        **(toolbox.pi_files(order.home) if toolbox else {}),
    }
    return LaunchCommand(
        argv=("pi", *_FLAGS, "--provider", _PROVIDER, "--model", _MODEL)
        + ("--session-dir", f"{order.home}/sessions", "--session-id", order.session)
        + (("--tools", tools) if tools else ("--no-tools",))
        + (("--extension", f"{order.home}/playbooks.js") if toolbox else ())
        + (("--append-system-prompt", system) if order.system else ()),
        env={"PI_CODING_AGENT_DIR": config, "PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
        stdin=order.prompt,
        files=files,
    )


def _models(order: LaunchContext) -> str:
    model = {"id": _MODEL, "contextWindow": _CONTEXT, "maxTokens": _MOST_OUTPUT}
    provider = {"baseUrl": order.url, "api": "anthropic-messages", "apiKey": order.token}
    return json.dumps({"providers": {_PROVIDER: {**provider, "models": [model]}}})


class _Reading:
    """Understands its JSON mode, which exits 0 also when the model failed."""

    def __init__(self, story: AgentActivity) -> None:
        self._story = story
        self._last: Event | None = None
        self.denied = 0
        self.rests: str | None = None

    def take(self, event: Event) -> None:
        """Tell what was said and done; remember the assistant's last message."""
        self.rests = None
        match event.get("type"):
            case "message_end" if text_at(event, "message", "role") == "assistant":
                self._last = event
                for block in content_blocks(event.get("message")):
                    self._story.on_text(text_at(block, "text"))
            case "tool_execution_start":
                name = text_at(event, "toolName")
                self._story.on_tool_start(text_at(event, "toolCallId"), name, event.get("args"))
            case "tool_execution_end":
                note = "error" if event.get("isError") is True else "ok"
                self._story.on_tool_end(text_at(event, "toolCallId"), note)
                last = not self._story.unfinished_calls
                self.rests = (
                    result_marker("toolCallId", text_at(event, "toolCallId")) if last else None
                )

    def failure(self) -> str | None:
        """Success is a last message at which the model stopped by itself."""
        if self._last is None:
            return "pi ended without a word from the model"
        reason = text_at(self._last, "message", "stopReason")
        if reason == "stop":
            return None
        said = one_line(text_at(self._last, "message", "errorMessage") or self._story.output, 300)
        return f"pi failed: {reason or 'no stop reason'}: {said}"


PI = AgentProgram(name="pi", launch=_launch, reading=_Reading)
