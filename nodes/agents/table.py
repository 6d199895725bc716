"""The table of agents: the built-in ones of `agents.toml`, and those of the settings."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Template
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from contracts.agents import AGENTS
from contracts.tool import PLAYBOOK_TOOLS

PLAYBOOKS_WORD = "playbooks"
"""The word for playbook tools. They exist if the settings enable them."""

MCP_WORD = "mcp"
"""The word for tools of MCP servers, always with a pattern: `mcp(tracker:get_issue)`."""

ToolKind = Literal["shell", "read", "write", "edit", "search"]


def _filled_in(text: str) -> str:
    """Return the text if it has no other variables than those of `AgentRow`."""
    known = {"home", "url", "token"}
    template = Template(text)
    if not template.is_valid() or set(template.get_identifiers()) - known:
        raise ValueError("variables are $home, $url and $token; write $$ for a dollar sign")
    return text


AgentText = Annotated[str, AfterValidator(_filled_in)]


class AgentRow(BaseModel, frozen=True, extra="forbid"):
    """One agent. With a command it speaks the Agent Client Protocol on its standard streams; an
    agent without one has a file of its own in this folder.

    Texts of `env` and `files` may contain `$home` (the agent's folder outside the workspace),
    `$url` (the gateway) and `$token` (the agent's key for it). The token determines the model,
    whatever model they name.
    """

    packages: tuple[str, ...] = ()
    """Packages of Debian, and of npm with `npm:` before them, that its image contains."""
    tools: Mapping[str, ToolKind]
    """Its tools, each with its word of `allowed_tools.py`. The guard denies all other tools."""
    host_tool: str = Field(default="$tool", pattern=r"^([\w-]*\$tool)?$")
    """Name that it gives to the tool `$tool` of the host. Empty: it cannot be given such tools."""
    tool_commands: bool = False
    """It is given tools of the host as commands, not as an MCP server: `$home/tools.json` declares
    them, and `node $home/host_tools.mjs NAME` calls one, with its arguments on standard input."""
    command: tuple[str, ...] = ()
    env: Mapping[str, AgentText] = Field(default_factory=dict)
    files: Mapping[str, AgentText] = Field(default_factory=dict)
    """Files in `$home`, by name."""
    auth: str = ""
    """Method with which the agent must be told to authenticate, if it wants that."""
    name_session: str = ""
    """Command that names a new session, for an agent that would ask the model for a name."""
    hidden_text: str | None = None
    """Beginning of a message that the agent writes about itself and that nobody needs."""
    failed_sign: str = ""
    """Regular expression for the JSON of an update that says that the agent failed, for one that
    ends its turn as usual in that case."""
    ended_call: str = ""
    """Text that appears in the files of `$home` once the call `$call` has ended. Empty: the agent
    cannot continue a conversation, so it begins anew when a run is resumed."""

    @property
    def host_prefix(self) -> str:
        """What it puts before the name of a tool of the host."""
        return self.host_tool.removesuffix("$tool")


class OwnAgent(AgentRow, frozen=True, extra="forbid"):
    """An agent of the settings."""

    command: tuple[str, ...] = Field(min_length=1)


_own: dict[str, AgentRow] = {}


def set_own_agents(rows: Mapping[str, AgentRow]) -> None:
    """Make these the agents of the settings, for this process."""
    _own.update(rows)
    for name in _own.keys() - rows.keys():
        _own.pop(name, None)


def agent_rows() -> Mapping[str, AgentRow]:
    """Return all agents by name, the built-in ones first."""
    return {**_built_in(), **_own}


@cache
def _built_in() -> Mapping[str, AgentRow]:
    table = tomllib.loads(Path(__file__).with_name("agents.toml").read_text())
    return {name: AgentRow.model_validate(row) for name, row in table.items()}


def _known_agent(name: str) -> str:
    if name not in agent_rows():
        known = ", ".join(map(repr, agent_rows()))
        raise PydanticCustomError("agent", "should be {known}", {"known": known})
    return name


AgentName = Annotated[
    str,
    AfterValidator(_known_agent),
    WithJsonSchema({"type": "string", "examples": list(AGENTS)}),
]
"""Name of an agent that exists when the value is checked."""


def tool_word(agent: str, name: str) -> str | None:
    """Return the word of `allowed_tools.py` for a tool of an agent, None for an unknown tool.

    A tool of an MCP server has the word `mcp(SERVER:TOOL)`.
    """
    row = agent_rows()[agent]
    if name in row.tools:
        return row.tools[name]
    if not row.host_tool or not name.startswith(row.host_prefix):
        return None
    return host_tool_word(name.removeprefix(row.host_prefix))


def host_tool_word(tool: str) -> str | None:
    """Return the word for a tool of the host: a playbook tool, or `SERVER__TOOL`."""
    if tool in PLAYBOOK_TOOLS:
        return PLAYBOOKS_WORD
    server, mark, name = tool.partition("__")
    return f"{MCP_WORD}({server}:{name})" if mark and server and name else None
