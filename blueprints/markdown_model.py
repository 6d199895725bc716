"""Models of the front matter of a Markdown blueprint. The JSON Schema is generated from them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from nodes.agents.table import AgentName
from nodes.model_names import ModelNames
from nodes.outputs.terms import (
    BLOCK,
    DEFAULT_CHARS,
    MOST_CHARS,
    MOST_OUTPUTS,
    Target,
    Verdict,
)
from nodes.types import DEFAULT_MAX_RETRIES, DEFAULT_MAX_TURNS

Steps = str | dict[str, str]
Seconds = Annotated[float, Field(gt=0)]


class _Table(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True
    )


class _AnyNode(_Table):
    name: str
    """Unique name of the node: the heading of its prompt, and its key in `results`."""
    description: str = ""
    """Description of the node, shown to people."""
    timeout_s: Seconds | None = None
    """Seconds that the node may take; no limit if missing."""


class _AgentLimits(_Table):
    tools: list[str] | None = None
    """Tools that agents may use: read, write, edit, search, shell, shell(git diff*), playbooks. All
    if missing."""
    max_turns: Annotated[int, Field(ge=1)] = DEFAULT_MAX_TURNS
    """Model calls after which an agent ends."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens of all kinds after which an agent ends; no limit if missing."""


class AgentSettings(_AgentLimits):
    agent: AgentName | None = None
    """The run's agent if missing."""
    model: ModelNames | None = None
    """The run's model if missing. Of several, the next is asked when one does not answer."""


class AgentNode(AgentSettings, _AnyNode):
    """An agent works on the files. Its prompt is the section with its name."""


class RunNode(_AnyNode):
    """A command runs; if it fails, the run stops."""

    run: str | list[str]
    """A shell line, or a list of a program and its arguments."""


class CheckNode(AgentSettings, _AnyNode):
    """Commands must pass. If one fails, an agent fixes it by the section with the check's name."""

    check: Steps
    """A shell line, or several by name."""
    retries: Annotated[int, Field(ge=1)] = DEFAULT_MAX_RETRIES
    """How often the agent may try."""


class ParallelNode(_Table):
    """Several lists of nodes run at the same time, in the same files."""

    name: str
    description: str = ""
    parallel: list[list["NodeTable"]]


class CompeteNode(_AgentLimits, _AnyNode):
    """Agents do the same task on copies of the files; the smallest change that passes wins."""

    compete: Annotated[int, Field(ge=2, le=20)]
    """Number of agents."""
    agents: list[AgentName] = []
    """Agents that take turns; the run's agent if empty."""
    check: Steps
    """A shell line that the work must pass, or several by name."""


class _OutputNode(_Table):
    """An output node: after the run the host does the agent's proposals within these bounds."""

    name: str
    """Unique name of the node, by which the agent proposes."""
    description: str = ""
    """Description of the node, shown to people and to the agent."""
    by: str | None = None
    """Agent that proposes; the one before if missing."""
    required: bool = False
    """The run fails if nothing is proposed or it cannot be done."""


class CommentNode(_OutputNode):
    """Comments that an agent proposes are written."""

    comment: Target
    """The issue that the run was started for, or its pull request."""
    max_count: Annotated[int, Field(ge=1, le=MOST_OUTPUTS)] = 1
    """Number of comments."""
    max_chars: Annotated[int, Field(ge=1, le=MOST_CHARS)] = DEFAULT_CHARS
    """Characters of a comment."""


class LabelNode(_OutputNode):
    """Labels that an agent chooses are added."""

    label: Annotated[list[str], Field(min_length=1)]
    """Labels from which the agent may choose."""
    on: Target = "issue"
    """The issue that the run was started for, or its pull request."""
    max_count: Annotated[int, Field(ge=1, le=MOST_OUTPUTS)] = 3
    """Number of labels."""


class OpenIssueNode(_OutputNode):
    """Issues that an agent proposes are opened."""

    open_issue: Annotated[int, Field(ge=1, le=MOST_OUTPUTS)]
    """Number of issues."""
    max_chars: Annotated[int, Field(ge=1, le=MOST_CHARS)] = DEFAULT_CHARS
    """Characters of an issue's text."""
    labels: list[str] = []
    """Labels of each of the issues."""


class ReviewNode(_OutputNode):
    """A review of the pull request that an agent proposes is written."""

    review: Annotated[list[Verdict], Field(min_length=1)]
    """Verdicts that the agent may give. An agent approves nothing unless "approve" is here."""
    max_comments: Annotated[int, Field(ge=1, le=MOST_OUTPUTS)] = 10
    """Number of comments on lines of the diff."""
    max_chars: Annotated[int, Field(ge=1, le=MOST_CHARS)] = DEFAULT_CHARS
    """Characters of the review, and of each comment."""


class NotifyNode(_OutputNode):
    """Notifications that an agent proposes are sent through a block of Prefect."""

    notify: Annotated[str, Field(pattern=f"^{BLOCK}$")]
    """The notification block, such as slack-webhook/team."""
    max_count: Annotated[int, Field(ge=1, le=MOST_OUTPUTS)] = 1
    """Number of notifications."""
    max_chars: Annotated[int, Field(ge=1, le=MOST_CHARS)] = DEFAULT_CHARS
    """Characters of a notification."""


class PullRequestNode(_OutputNode):
    """The work is pushed and its pull request opened, if an agent proposes title and text."""

    pull_request: Literal["draft", "ready"]
    """Whether the pull request is opened as a draft."""
    max_chars: Annotated[int, Field(ge=1, le=MOST_CHARS)] = DEFAULT_CHARS
    """Characters of the text."""


KINDS: dict[str, type[BaseModel]] = {
    "run node": RunNode,
    "parallel node": ParallelNode,
    "compete node": CompeteNode,
    "check node": CheckNode,
    "comment node": CommentNode,
    "label node": LabelNode,
    "open_issue node": OpenIssueNode,
    "review node": ReviewNode,
    "notify node": NotifyNode,
    "pull_request node": PullRequestNode,
    "agent node": AgentNode,
}
"""The kinds of nodes. The key before " node" tells the kind; without any it is an agent."""


OutputNode = CommentNode | LabelNode | OpenIssueNode | ReviewNode | NotifyNode | PullRequestNode
"""The nodes that an agent proposes for."""

PROMPTED = AgentNode | CheckNode | CompeteNode
"""The nodes whose prompts stand in the body."""


def _kind(value: Any) -> str:
    keys = value if isinstance(value, dict) else ()
    return next((kind for kind in KINDS if kind.partition(" ")[0] in keys), "agent node")


NodeTable = Annotated[
    Annotated[RunNode, Tag("run node")]
    | Annotated[ParallelNode, Tag("parallel node")]
    | Annotated[CompeteNode, Tag("compete node")]
    | Annotated[CheckNode, Tag("check node")]
    | Annotated[CommentNode, Tag("comment node")]
    | Annotated[LabelNode, Tag("label node")]
    | Annotated[OpenIssueNode, Tag("open_issue node")]
    | Annotated[ReviewNode, Tag("review node")]
    | Annotated[NotifyNode, Tag("notify node")]
    | Annotated[PullRequestNode, Tag("pull_request node")]
    | Annotated[AgentNode, Tag("agent node")],
    Discriminator(_kind),
]


class BlueprintTable(AgentSettings):
    """Settings of a blueprint in Markdown. The agent settings hold for nodes that set none."""

    name: str
    """Lower-case letters, digits and hyphens; branches are named after it."""
    description: str
    """Description of the blueprint, in one line."""
    options: dict[str, str] = {}
    """Options that `--set name=value` takes, with their meaning."""
    needs: list[Annotated[str, Field(pattern=r"^[\w.+-]+$")]] = []
    """Programs that the sandbox must have, such as git."""
    reads_checks: bool = False
    """The logs of the failed checks of the commit that the run starts from are added to the
    intent."""
    needs_intent: bool = False
    """A run without an intent is refused."""
    egress: list[str] = []
    """Hosts that commands may reach."""
    changes: list[str] = []
    """Globs on protected files that the blueprint is meant to change."""
    mcp: list[str] = []
    """Tools of MCP servers that every agent may use, such as tracker:get_issue."""
    nodes: Annotated[list[NodeTable], Field(min_length=1)]
    """Nodes in the order in which they run."""


def blueprint_schema() -> dict[str, object]:
    """Return the JSON Schema of the front matter, for editors."""
    made = BlueprintTable.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}
