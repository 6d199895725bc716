"""pi: the `pi` command line in the sandbox.

Extensions, skills, prompt templates, themes, context files and project settings are off: a
repository cannot make it run anything. It knows no limits; the gateway does.
"""

import json

from contracts.gate import OpenGate
from contracts.json import text_in
from nodes.agents.allowed import names_for
from nodes.agents.cli import GATEWAY_PORT, Cli, LaunchOrder, cli_agent
from nodes.agents.events import Event, blocks, result_of
from nodes.agents.lines import one_line
from nodes.agents.session import Launch
from nodes.agents.story import LiveStory
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


def pi(open_gate: OpenGate, *, port: int = GATEWAY_PORT, on_line: OnLine = lambda _: None) -> Agent:
    """The agent `pi`; see `cli_agent`."""
    return cli_agent(PI, open_gate, port=port, on_line=on_line)


def _launch(order: LaunchOrder) -> Launch:
    task, config = order.task, f"{order.home}/config"
    toolbox = order.toolbox
    added = [tool.name for tool in toolbox.tools] if toolbox else []
    tools = ",".join((*names_for("pi", task.allowed_tools), *added))
    system = f"{order.home}/system.md"
    files = {
        f"{config}/models.json": _models(order),
        **({system: order.system} if order.system else {}),
        **(toolbox.pi_files(order.home) if toolbox else {}),
    }
    return Launch(
        argv=("pi", *_FLAGS, "--provider", _PROVIDER, "--model", _MODEL)
        + ("--session-dir", f"{order.home}/sessions", "--session-id", order.session)
        + (("--tools", tools) if tools else ("--no-tools",))
        + (("--extension", f"{order.home}/playbooks.js") if toolbox else ())
        + (("--append-system-prompt", system) if order.system else ()),
        env={"PI_CODING_AGENT_DIR": config, "PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
        stdin=order.prompt,
        files=files,
    )


def _models(order: LaunchOrder) -> str:
    model = {"id": _MODEL, "contextWindow": _CONTEXT, "maxTokens": _MOST_OUTPUT}
    provider = {"baseUrl": order.url, "api": "anthropic-messages", "apiKey": order.token}
    return json.dumps({"providers": {_PROVIDER: {**provider, "models": [model]}}})


class _Reading:
    """Understands its JSON mode, which exits 0 also when the model failed."""

    def __init__(self, story: LiveStory) -> None:
        self._story = story
        self._last: Event | None = None
        self.denied = 0
        self.rests: str | None = None

    def take(self, event: Event) -> None:
        """Tell what was said and done; remember the assistant's last message."""
        self.rests = None
        match event.get("type"):
            case "message_end" if text_in(event, "message", "role") == "assistant":
                self._last = event
                for block in blocks(event.get("message")):
                    self._story.said(text_in(block, "text"))
            case "tool_execution_start":
                name = text_in(event, "toolName")
                self._story.began(text_in(event, "toolCallId"), name, event.get("args"))
            case "tool_execution_end":
                note = "error" if event.get("isError") is True else "ok"
                self._story.ended(text_in(event, "toolCallId"), note)
                last = not self._story.under_way
                self.rests = result_of("toolCallId", text_in(event, "toolCallId")) if last else None

    def failure(self) -> str | None:
        """Success is a last message at which the model stopped by itself."""
        if self._last is None:
            return "pi ended without a word from the model"
        reason = text_in(self._last, "message", "stopReason")
        if reason == "stop":
            return None
        said = one_line(text_in(self._last, "message", "errorMessage") or self._story.output, 300)
        return f"pi failed: {reason or 'no stop reason'}: {said}"


PI = Cli(name="pi", launch=_launch, reading=_Reading)
