"""Tools that are done on the host: the playbook tools, as any agent may be offered them."""

from collections.abc import Callable
from dataclasses import dataclass

from contracts.sandbox import Connect
from contracts.tool import Tool, ToolCall

PLAYBOOK_TOOLS = (
    "playbook_search",
    "playbook_get",
    "playbook_list",
    "playbook_create",
    "playbook_update",
    "playbook_delete",
)
"""Every name that such a tool may have; providers refuse a dot in one."""


@dataclass(frozen=True, kw_only=True)
class McpEndpoint:
    """An MCP server for one run: streamable HTTP, to be led into the sandbox."""

    connect: Connect
    path: str
    token: str
    """A bearer token, worth nothing after the run."""


@dataclass(frozen=True, kw_only=True)
class Toolbox:
    """What a run's agents are offered besides their own tools."""

    tools: tuple[Tool, ...]
    run: Callable[[ToolCall], str]
    """Does one call; what goes wrong is the text as well."""
    prompt_section: Callable[[str, str], str]
    """Takes a prompt's id and the prompt; gives what its system prompt is to say of the tools.

    It may be asked before each call of the model: it searches once for each id."""
    mcp_endpoint: Callable[[], McpEndpoint]
    """The same tools over MCP, served from the first call until the run ends."""
