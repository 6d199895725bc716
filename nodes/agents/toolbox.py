"""Tools from outside the sandbox, as the agents' command lines are told of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from contracts.sandbox import Sandbox
from contracts.tool import Tool
from contracts.toolbox import Toolbox
from nodes.agents.allowed_tools import PLAYBOOKS_WORD, parse_allowed_tools
from nodes.agents.types import AgentTask

MCP_SERVER_NAME = "playbooks"
"""What the MCP server is called; Claude Code puts it into the names of the tools."""

_EXTENSION = Path(__file__).with_name("pi_playbooks.js")


@dataclass(frozen=True, kw_only=True)
class ForwardedToolbox:
    """The toolbox of one task, with its door already led into the sandbox."""

    tools: tuple[Tool, ...]
    url: str
    token: str
    prompt_section: str
    """What the system prompt says of the tools."""

    def mcp_config(self) -> str:
        """The server, as Claude Code's `--mcp-config` reads it."""
        headers = {"Authorization": f"Bearer {self.token}"}
        server = {"type": "http", "url": self.url, "headers": headers}
        return json.dumps({"mcpServers": {MCP_SERVER_NAME: server}})

    def pi_files(self, folder: str) -> Mapping[str, str]:
        """An extension of pi's that offers the tools, for it speaks no MCP; and what it reads."""
        tools = [
            {"name": t.name, "description": t.description, "parameters": dict(t.parameters)}
            for t in self.tools
        ]
        about = {"url": self.url, "token": self.token, "tools": tools}
        return {
            f"{folder}/playbooks.js": _EXTENSION.read_text(),
            f"{folder}/playbooks.json": json.dumps(about),
        }


def offered_tools(toolbox: Toolbox | None, allowed: Sequence[str] | None) -> tuple[Tool, ...]:
    """The toolbox's tools, where the node allows them."""
    if toolbox is None or PLAYBOOKS_WORD not in parse_allowed_tools(allowed).words:
        return ()
    return toolbox.tools


def forward_toolbox(task: AgentTask, sandbox: Sandbox) -> ForwardedToolbox | None:
    """The task's toolbox for a program in the sandbox; None where it has none.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    tools = offered_tools(task.toolbox, task.allowed_tools)
    if task.toolbox is None or not tools:
        return None
    door = task.toolbox.mcp_endpoint()
    port = sandbox.forward(0, door.connect)
    return ForwardedToolbox(
        tools=tools,
        url=f"http://127.0.0.1:{port}{door.path}",
        token=door.token,
        prompt_section=task.toolbox.prompt_section(task.node, task.prompt),
    )
