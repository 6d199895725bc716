"""A run request: everything that a user gives to start a run.

One model serves Prefect's form, the command line, webhook rules, `run.json` and a resumed run.
`request_checks.py` adds the checks that need the blueprint.
"""

import re
import secrets as random
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError

from blueprints.types import Blueprint
from contracts.agents import AGENTS
from contracts.chat import model_names
from contracts.errors import BadInput
from contracts.files import existing_path
from memory.scope import ID_LIMIT
from nodes.agents.allowed_tools import parse_allowed_tools, with_mcp_tools
from nodes.changes import BASE_OPTION, REVIEW_OPTIONS
from nodes.issue import ISSUE_OPTION, ISSUE_OPTIONS
from nodes.outputs.terms import PullRequestTerms
from nodes.text import check_text
from nodes.types import Agentic, Output, inner_nodes
from sandbox.redaction import redact_url

CONFIGURED: Final = "configured"
"""Means: the agent that the settings name."""

MOST_USD = 10_000.0
ROUNDS, MOST_ROUNDS = 2, 20
"""Rounds after a push, if the request names no number, and at most."""
MOST_PATTERNS = 100
LONGEST_PATTERN = 500
"""Most patterns of `--allow-change` in one request, and most characters of one pattern."""
_LONGEST_NAME = 200
SHOWN = 200
"""Characters of a refused value that an error message repeats."""

Variable = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*(KEY|TOKEN|SECRET|PASSWORD)$")]
"""Name of an environment variable that the redactor hides and that changes no program's
behaviour."""
BlockName = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,100}$")]
Pattern = Annotated[str, Field(min_length=1, max_length=LONGEST_PATTERN)]
Usd = Annotated[float, Field(gt=0, le=MOST_USD)]


class RunRequest(BaseModel):
    """A run as the user requested it. An empty text means "not given".

    The order of the fields is their order in Prefect's form.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    blueprint: str = Field(
        title="Blueprint",
        max_length=500,
        description="A name from `harness blueprints list`, FILE.md or FILE.py:NAME. In Prefect a "
        "file must be listed in the setting `allowed_blueprints`.",
    )
    repo: str = Field(
        title="Repository",
        max_length=2_000,
        description="Path or URL of the git repository to work on, such as /srv/git/my-project.",
    )
    intent: str = Field(
        default="",
        title="Intent",
        max_length=20_000,
        description='What you want, in your own words, such as "make the tests pass".',
    )
    ref: str = Field(
        default="",
        title="Start from",
        max_length=500,
        description="Branch, tag or commit to start from; HEAD of the repository if empty.",
    )
    agent: str = Field(
        default=CONFIGURED,
        title="Agent",
        max_length=100,
        description=f"Agent for nodes that name none: {', '.join(AGENTS)}, one of the "
        "settings, or the configured one.",
    )
    model: str = Field(
        default="",
        title="Model",
        max_length=500,
        description="A litellm name such as anthropic/claude-sonnet-5-5, or scripted/FILE; several "
        "with commas: the next is asked when one does not answer; the configured one if empty.",
    )
    push: bool = Field(
        default=False, title="Push", description="Push the branch if every node succeeded."
    )
    until_green: Annotated[int, Field(ge=0, le=MOST_ROUNDS)] = Field(
        default=ROUNDS,
        title="Rounds until green",
        description="After the push, wait for the checks of the pull request; an agent mends what "
        "failed and the run pushes again, at most this often. 0: do not wait.",
    )
    budget_usd: Usd | None = Field(
        default=None,
        title="Budget in US dollars",
        description="US dollars that the agents of this run may spend together; the configured "
        "limit if empty.",
    )
    options: dict[str, str] = Field(
        default={}, title="Options", description="Options of the blueprint, by name."
    )
    user: str = Field(
        default="",
        title="User",
        max_length=ID_LIMIT,
        description="User whose private notes and examples the agents are given.",
    )
    company: str = Field(
        default="",
        title="Company",
        max_length=ID_LIMIT,
        description="Company whose notes and examples the agents are given.",
    )
    secrets: dict[Variable, BlockName] = Field(
        default={},
        title="Secrets",
        description="Variable to the name of a Prefect Secret block, such as "
        '{"OPENAI_API_KEY": "team-a-key"}. Never the secret itself: the server stores this field.',
    )
    intent_from: str = Field(
        default="",
        title="Intent taken from",
        max_length=200,
        description="Where an untrusted intent came from, such as issue:17. Nothing in such an "
        "intent counts as your decision. Empty if the intent is yours.",
    )
    allow_change: tuple[Pattern, ...] = Field(
        default=(),
        title="Allow changes of protected files",
        max_length=MOST_PATTERNS,
        description="Globs on whole paths of protected files that this run may change and push, "
        "such as .github/workflows/* or **/uv.lock. Nothing that the intent says permits it.",
    )
    mcp: tuple[Pattern, ...] = Field(
        default=(),
        title="Tools of MCP servers",
        max_length=MOST_PATTERNS,
        description="Tools of MCP servers that every agent of this run may use, as SERVER:TOOL, "
        "such as tracker:get_issue or tracker:*.",
    )
    wait_approvals_s: Annotated[float, Field(ge=0, le=1500)] | None = Field(
        default=None,
        title="Wait for approvals",
        description="Seconds an agent waits for your decision before it continues without the "
        "action.",
    )

    @property
    def taint(self) -> tuple[str, ...]:
        """Untrusted origins: the repository, and the source of an intent that is not the user's."""
        repo = f"repo:{repo_name(self.repo)}"
        return (repo, self.intent_from) if self.intent_from else (repo,)

    @property
    def mentioned_files(self) -> tuple[str, ...]:
        """Words of the user's own intent that may name a file. They permit nothing."""
        words = () if self.intent_from else self.intent.split()
        plain = (word.strip("`'\"()[]{}<>,;:!?").removeprefix("./").rstrip(".") for word in words)
        named = dict.fromkeys(word for word in plain if re.search(r"\w[./]|[./]\w", word))
        return tuple(word for word in named if len(word) <= _LONGEST_NAME)[:MOST_PATTERNS]

    @classmethod
    def of(cls, **fields: object) -> Self:
        """Make a request of these fields.

        Raises:
            BadInput: a field is missing, unknown, too long or of the wrong type.
        """
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise BadInput(_first_error(error)) from error

    def changed(self, **fields: object) -> Self:
        """Return a copy with other values in these fields.

        Raises:
            BadInput: as `of`.
        """
        return self.of(**{**dict(self), **fields})


class ResolvedRequest(RunRequest):
    """A request with its blueprint loaded and its defaults filled in from the settings."""

    definition: InstanceOf[Blueprint] = Field(exclude=True)
    way_out: bool = Field(default=True, exclude=True)
    """False: commands of the run reach no host, whatever the settings and the blueprint allow."""
    toolchain: tuple[str, ...] = Field(default=(), exclude=True)
    """Packages that the project needs in the sandbox, found in the base commit."""

    @property
    def agentic_nodes(self) -> list[Agentic]:
        """All nodes that an agent executes, fixes included."""
        return agentic_nodes(self.definition)

    @property
    def issue(self) -> str:
        """Number of the issue that the run is to read from the forge, as typed; empty without."""
        takes_issue = self.definition.options.get(ISSUE_OPTION) == ISSUE_OPTIONS[ISSUE_OPTION]
        return self.options.get(ISSUE_OPTION, "") if takes_issue else ""

    @property
    def may_push(self) -> bool:
        """True if the user asked for a push, or the blueprint may open a pull request."""
        nodes = self.definition.nodes
        terms = [node.terms for node in nodes if isinstance(node, Output)]
        return self.push or any(isinstance(one, PullRequestTerms) for one in terms)

    @property
    def mcp_patterns(self) -> tuple[str, ...]:
        """Tools of MCP servers that every agent may use, as SERVER:TOOL."""
        return (*self.definition.mcp, *self.mcp)

    @property
    def mcp_servers(self) -> tuple[str, ...]:
        """Names of the MCP servers that some agent may use."""
        allowed = (self.allowed_tools(node) for node in self.agentic_nodes)
        names = (name for one in allowed for name in parse_allowed_tools(one).mcp_servers)
        return tuple(dict.fromkeys(names))

    def allowed_tools(self, node: Agentic) -> Sequence[str] | None:
        """Return the tools of a node's agent, with those that every agent may use."""
        return with_mcp_tools(node.allowed_tools, self.mcp_patterns)

    @property
    def agents(self) -> set[str]:
        """Names of the agents that the nodes need; empty if no node needs one."""
        return {node.agent or self.agent for node in self.agentic_nodes}

    @property
    def models(self) -> set[str]:
        """Names of the models that agents may call; empty if no node needs an agent."""
        return {
            name for node in self.agentic_nodes for name in model_names(node.model_or(self.model))
        }

    @property
    def review_base(self) -> str | None:
        """Branch, tag or commit that a review compares with; None for the main branch."""
        takes_base = dict(self.definition.options).get(BASE_OPTION) == REVIEW_OPTIONS[BASE_OPTION]
        return self.options.get(BASE_OPTION) or None if takes_base else None

    def inside_sandbox(self, fork_point: str | None) -> Self:
        """Return the request as nodes see it: the sandbox lacks the source's branches and tags, so
        a review compares with the commit `fork_point`."""
        if self.review_base is None or fork_point is None:
            return self
        return self.changed(options={**self.options, BASE_OPTION: fork_point})


def agentic_nodes(blueprint: Blueprint) -> list[Agentic]:
    """All nodes of a blueprint that an agent executes, fixes included."""
    every = (node for top in blueprint.nodes for node in (top, *inner_nodes(top)))
    return [node for node in every if isinstance(node, Agentic)]


class FlowRun(NamedTuple):
    """Id and page of the Prefect flow run of a run.

    `suspends`: the flow run suspends while it waits for a person, and a worker resumes it.
    """

    id: str
    url: str
    suspends: bool = False


def new_run_id(runs: Path | None = None) -> str:
    """Return eight random hex digits that no run in the folder `runs` uses."""
    while True:
        made = random.token_hex(4)
        if runs is None or not (runs / made).exists():
            return made


def repo_name(repo: str) -> str:
    """Return the last part of a path or URL, without `.git`."""
    whole = redact_url(absolute_repo(repo))
    return whole.rstrip("/").rpartition("/")[2].removesuffix(".git") or whole


def absolute_repo(repo: str) -> str:
    """Return an existing path as an absolute path; a URL or a missing path unchanged."""
    return str(existing_path(repo) or repo)


def _first_error(error: ValidationError) -> str:
    first = error.errors()[0]
    found, limits = first["input"], first.get("ctx", {})
    name = ".".join(map(str, first["loc"]))
    if name.startswith("allow_change"):
        name = "pattern of --allow-change"
    match first["type"]:
        case "string_too_long":
            most = limits["max_length"]
            why = f"the {name} has {len(found)} characters: at most {most} are allowed"
        case "greater_than" | "less_than_equal" if name == "budget_usd":
            why = f"the budget is {found:g} US dollars: it must be above 0 and at most {MOST_USD:g}"
        case "string_unicode":
            check_text(f"the {name}", found)  # raises with the position of the bad character
            why = f"the {name} must be text in UTF-8"
        case "literal_error":
            why = f"no {name} {found!r}; known: {limits['expected']}"
        case "missing":
            why = f"no {name} is given"
        case "extra_forbidden":
            known = ", ".join(RunRequest.model_fields)
            why = f"a run request has no field {name!r}: it has {known}"
        case _:
            what = first["msg"][:1].lower() + first["msg"][1:]
            why = f"{name}: {what}, not {repr(found)[:SHOWN]}"
    return why
