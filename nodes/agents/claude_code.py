"""claude-code: the `claude` command line in the sandbox.

Its own settings, hooks, skills, plugins and memory are off (`--safe-mode`, no setting
sources, no MCP but ours): a repository cannot make it run anything. Bare mode would do that too,
but has neither Write nor Grep and Glob. Safe mode shuts our own MCP server out as well: where there
is one, the other flags have to do.
"""

from collections.abc import Mapping
from types import MappingProxyType

from contracts.json import text_at
from contracts.model_access import OpenModelAccess
from nodes.agents.activity import AgentActivity
from nodes.agents.agent_process import LaunchCommand
from nodes.agents.allowed_tools import allowed_tool_names
from nodes.agents.cli import GATEWAY_PORT, AgentProgram, LaunchContext, cli_agent
from nodes.agents.events import Event, content_blocks, result_marker
from nodes.agents.lines import one_line
from nodes.agents.toolbox import MCP_SERVER_NAME
from nodes.agents.types import Agent, OnLine

_FLAGS = (
    *("--print", "--output-format", "stream-json", "--verbose"),
    *("--setting-sources", "", "--strict-mcp-config", "--disable-slash-commands"),
    *("--permission-mode", "dontAsk"),
)
_ENV: Mapping[str, str] = MappingProxyType(
    {
        "API_TIMEOUT_MS": "1800000",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",  # the gateway has tried often enough
        "DISABLE_AUTOUPDATER": "1",
    }
)
_MODEL = "sonnet"
"""What it believes it talks to; which model answers is the token's matter."""


def claude_code(
    open_gate: OpenModelAccess, *, port: int = GATEWAY_PORT, on_line: OnLine = lambda _: None
) -> Agent:
    """The agent `claude-code`; see `cli_agent`."""
    return cli_agent(CLAUDE_CODE, open_gate, port=port, on_line=on_line)


def _launch(order: LaunchContext) -> LaunchCommand:
    task = order.task
    own = allowed_tool_names("claude-code", task.allowed_tools)
    led = order.toolbox.tools if order.toolbox else ()
    named = [*own, *(f"mcp__{MCP_SERVER_NAME}__{tool.name}" for tool in led)]
    offered = ("--tools", ",".join(own), "--allowedTools", ",".join(named))
    system, mcp = f"{order.home}/system.md", f"{order.home}/mcp.json"
    closed = ("--mcp-config", mcp) if order.toolbox else ("--safe-mode",)
    files = {system: order.system} if order.system else {}
    session = ("--resume" if order.resumes else "--session-id", order.session)
    turns = () if task.limits.turns is None else ("--max-turns", str(task.limits.turns))
    added = ("--append-system-prompt-file", system) if order.system else ()
    return LaunchCommand(
        argv=("claude", *_FLAGS, *session, *closed, *offered, "--model", _MODEL, *turns, *added),
        env={
            **_ENV,
            "ANTHROPIC_BASE_URL": order.url,
            "ANTHROPIC_API_KEY": order.token,
            "CLAUDE_CONFIG_DIR": f"{order.home}/config",
        },
        stdin=order.prompt,
        files={**files, mcp: order.toolbox.mcp_config()} if order.toolbox else files,
    )


class _Reading:
    """Understands stream-json."""

    def __init__(self, story: AgentActivity) -> None:
        self._story = story
        self._result: Event | None = None
        self.denied = 0
        self.rests: str | None = None

    def take(self, event: Event) -> None:
        """Tell what was said and done; remember the result."""
        self.rests = None
        match event.get("type"):
            case "assistant":
                self._said(event)
            case "user":
                self._done(event)
            case "result":
                self._result = event
                denials = event.get("permission_denials")
                self.denied = len(denials) if isinstance(denials, list) else 0
            case "system" if event.get("subtype") == "api_retry":
                self._story.on_line("the model is asked again")

    def failure(self) -> str | None:
        """Success is a result that says so; its exit code says nothing."""
        if self._result is None:
            return "claude ended without a result"
        subtype = text_at(self._result, "subtype")
        if subtype == "success" and self._result.get("is_error") is False:
            return None
        if subtype == "error_max_turns":
            return "turn limit reached"
        said = one_line(text_at(self._result, "result") or self._story.output, 300)
        return f"claude failed: {subtype if subtype != 'success' else 'error'}: {said}"

    def _said(self, event: Event) -> None:
        for block in content_blocks(event.get("message")):
            if block.get("type") == "text":
                self._story.on_text(text_at(block, "text"))
            elif block.get("type") == "tool_use":
                name = text_at(block, "name")
                self._story.on_tool_start(text_at(block, "id"), name, block.get("input"))

    def _done(self, event: Event) -> None:
        for block in content_blocks(event.get("message")):
            if block.get("type") == "tool_result":
                note = "error" if block.get("is_error") is True else "ok"
                self._story.on_tool_end(text_at(block, "tool_use_id"), note)
                last = not self._story.unfinished_calls
                call = text_at(block, "tool_use_id")
                self.rests = result_marker("tool_use_id", call) if last else None


CLAUDE_CODE = AgentProgram(name="claude-code", launch=_launch, reading=_Reading)
