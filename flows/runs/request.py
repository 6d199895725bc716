"""A run request: everything that a user gives to start a run.

One model serves Prefect's form, the command line, webhook rules, `run.json` and a resumed run.
"""

import secrets as random
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError

from blueprints.types import Blueprint
from contracts.agents import AgentName
from contracts.errors import BadInput
from contracts.paths import existing_path
from contracts.text import check_text
from flows.runs.fields import DESCRIPTIONS
from memory.scope import ID_LIMIT
from nodes.review_range import BASE_OPTION, REVIEW_OPTIONS
from nodes.types import Agentic, inner_nodes
from sandbox.git import redact_url

CONFIGURED: Final = "configured"
"""Means: the agent that the settings name."""

MOST_USD = 10_000.0
MOST_PATTERNS = 100
LONGEST_PATTERN = 500
"""Most patterns of `--allow-change` in one request, and most characters of one pattern."""
SHOWN = 200
"""Characters of a refused value that an error message repeats."""

AgentChoice = Literal["configured", AgentName]
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

    blueprint: str = Field(title="Blueprint", max_length=500, description=DESCRIPTIONS["blueprint"])
    repo: str = Field(title="Repository", max_length=2_000, description=DESCRIPTIONS["repo"])
    intent: str = Field(
        default="", title="Intent", max_length=20_000, description=DESCRIPTIONS["intent"]
    )
    ref: str = Field(
        default="", title="Start from", max_length=500, description=DESCRIPTIONS["ref"]
    )
    agent: AgentChoice = Field(default=CONFIGURED, title="Agent", description=DESCRIPTIONS["agent"])
    model: str = Field(default="", title="Model", max_length=500, description=DESCRIPTIONS["model"])
    push: bool = Field(default=False, title="Push", description=DESCRIPTIONS["push"])
    budget_usd: Usd | None = Field(
        default=None, title="Budget in US dollars", description=DESCRIPTIONS["budget_usd"]
    )
    options: dict[str, str] = Field(
        default={}, title="Options", description=DESCRIPTIONS["options"]
    )
    user: str = Field(
        default="", title="User", max_length=ID_LIMIT, description=DESCRIPTIONS["user"]
    )
    company: str = Field(
        default="", title="Company", max_length=ID_LIMIT, description=DESCRIPTIONS["company"]
    )
    secrets: dict[Variable, BlockName] = Field(
        default={}, title="Secrets", description=DESCRIPTIONS["secrets"]
    )
    intent_from: str = Field(
        default="",
        title="Intent taken from",
        max_length=200,
        description=DESCRIPTIONS["intent_from"],
    )
    allow_change: tuple[Pattern, ...] = Field(
        default=(),
        title="Allow changes of protected files",
        max_length=MOST_PATTERNS,
        description=DESCRIPTIONS["allow_change"],
    )
    wait_approvals_s: Annotated[float, Field(ge=0, le=1500)] | None = Field(
        default=None, title="Wait for approvals", description=DESCRIPTIONS["wait_approvals_s"]
    )

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

    @property
    def agentic_nodes(self) -> list[Agentic]:
        """All nodes that an agent executes, fixes included."""
        return agentic_nodes(self.definition)

    @property
    def agents(self) -> set[str]:
        """Names of the agents that the nodes need; empty if no node needs one."""
        return {node.agent or self.agent for node in self.agentic_nodes}

    @property
    def models(self) -> set[str]:
        """Names of the models that agents may call; empty if no node needs an agent."""
        return {node.model or self.model for node in self.agentic_nodes}

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
