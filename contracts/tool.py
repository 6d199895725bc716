"""Tools that a model may call, the decision about one call, and the tools that run on the host."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

Effect = Literal["read", "write", "egress"]
"""Effect of an MCP server's tool, as the settings declare it: `read` gives data, `write` changes
data of the server, `egress` sends data to others."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool as the model sees it; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call by a model. `arguments` is the model's text, which may be invalid JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, kw_only=True)
class Denied:
    """The call must not run. `reason` is for the model and for people.

    If a policy rule denied the call, `rule` (`C4`), `argument` (`/to`), `tags` and `provenance`
    (the origin first) say which rule, by which argument, and where its tags came from. `approval`
    is the id of the pending approval, `approval_note` its status for the model. `others` are the
    denials by other rules; a person who approves the call lifts all of them.
    """

    reason: str
    rule: str = ""
    argument: str = ""
    tags: frozenset[str] = frozenset()
    provenance: tuple[str, ...] = ()
    approval: str = ""
    approval_note: str = ""
    others: tuple["Denied", ...] = ()

    @property
    def denials(self) -> tuple["Denied", ...]:
        """This denial and the others."""
        return (self, *self.others)

    @property
    def message(self) -> str:
        """The text for the model: all reasons and the status of the approval."""
        reasons = "; ".join(dict.fromkeys(one.reason for one in self.denials))
        return f"{reasons}. {self.approval_note}" if self.approval_note else reasons


@dataclass(frozen=True)
class Allowed:
    """The call may run. `lifted_denial` is set if a person approved this one call."""

    lifted_denial: Denied | None = None


Decision = Allowed | Denied
Guard = Callable[[ToolCall], Decision]

PLAYBOOK_TOOLS = (
    "playbook_search",
    "playbook_get",
    "playbook_list",
    "playbook_create",
    "playbook_update",
    "playbook_delete",
)
"""Names of all tools that run on the host. Model providers reject a dot in a name."""


@dataclass(frozen=True, kw_only=True)
class McpEndpoint:
    """An MCP server (streamable HTTP) on this host, with the bearer token that it requires."""

    url: str
    token: str


@dataclass(frozen=True, kw_only=True)
class Toolbox:
    """Tools on the host that agents are offered besides their own: playbooks, MCP servers."""

    tools: tuple[Tool, ...]
    run: Callable[[ToolCall], str]
    """Run one call and return text for the model; an error is returned as text, too."""
    prompt_section: Callable[[str], str]
    """Takes an agent's prompt; returns text about these tools for its system prompt."""
    serve: Callable[["Toolbox"], AbstractContextManager[McpEndpoint]]
    """Serve the tools of a toolbox over MCP until the block ends."""
