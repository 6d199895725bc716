"""The table of agents, `agents.toml`."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Template

from pydantic import BaseModel, Field

from contracts.tool import PLAYBOOK_TOOLS

PLAYBOOKS_WORD = "playbooks"
"""The word for tools that run on the host. They exist if the settings enable them."""


class AcpLaunch(BaseModel, frozen=True, extra="forbid"):
    """How to start an agent that speaks the Agent Client Protocol on its standard streams.

    Texts may contain `$home` (the agent's folder outside the workspace), `$url` (the gateway) and
    `$token` (the agent's key for it). The token determines the model, whatever model they name.
    """

    command: tuple[str, ...] = Field(min_length=1)
    env: Mapping[str, str] = Field(default_factory=dict)
    files: Mapping[str, str] = Field(default_factory=dict)
    """Files in `$home`, by name."""
    auth: str = ""
    """Method with which the agent must be told to authenticate, if it wants that."""
    name_session: str = ""
    """Command that names a new session, for an agent that would ask the model for a name."""
    hidden_text: str | None = None
    """Beginning of a message that the agent writes about itself and that nobody needs."""
    failed_sign: str = ""
    """Text in the metadata of an update that says that the agent failed, for one that ends its turn
    as usual in that case."""
    ended_call: str = ""
    """Text that appears in the files of `$home` once the call `$call` has ended. Empty: the agent
    cannot continue a conversation, so it begins anew when a run is resumed."""


class AgentRow(BaseModel, frozen=True, extra="forbid"):
    """One agent."""

    packages: tuple[str, ...] = ()
    """Packages of Debian, and of npm with `npm:` before them, that its image contains."""
    tools: Mapping[str, str]
    """Its tools, each with its word of `allowed_tools.py`. The guard denies all other tools."""
    host_tool: str = "$tool"
    """Name that it gives to the tool `$tool` of the host. Empty: it cannot be given such tools."""
    acp: AcpLaunch | None = None
    """None for an agent with a file of its own in this folder."""

    @property
    def all_tools(self) -> Mapping[str, str]:
        """Its own tools and the host's."""
        name = Template(self.host_tool)
        hosts = [name.substitute(tool=tool) for tool in PLAYBOOK_TOOLS] if self.host_tool else ()
        return {**self.tools, **dict.fromkeys(hosts, PLAYBOOKS_WORD)}


@cache
def agent_rows() -> Mapping[str, AgentRow]:
    """Return all agents by name."""
    table = tomllib.loads(Path(__file__).with_name("agents.toml").read_text())
    return {name: AgentRow.model_validate(row) for name, row in table.items()}


@cache
def agent_tools(agent: str) -> Mapping[str, str]:
    """Return the tools of an agent, each with its word."""
    return agent_rows()[agent].all_tools
