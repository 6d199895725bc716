"""What somebody asks for when they start a run."""

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from blueprints.types import Blueprint
from contracts.errors import BadInput, OptionInvalid
from contracts.paths import existing_path
from contracts.text import check_text
from memory.scope import Scope, checked
from nodes.agents.allowed import check_allowed
from nodes.projects.options import OPTIONS, option_argv
from nodes.types import Agentic, inner
from sandbox.git import redacted

LONGEST = {"repo": 2_000, "intent": 20_000, "intent_from": 200, "ref": 500, "model": 500}
"""Characters that a run takes in each of these."""

MOST_USD = 10_000.0
"""The highest budget of one run."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One run, asked for but not begun. `ref=None` means HEAD; money is in US dollars.

    `blueprint_ref` is how the blueprint was found; empty when by its name.
    `intent_from` names the place that an intent was taken from which nobody vouches for, such as
    `issue:17`; empty: the user said it.
    """

    blueprint: Blueprint
    blueprint_ref: str = ""
    repo: str
    intent: str = ""
    intent_from: str = ""
    ref: str | None = None
    agent: str
    model: str
    push: bool = False
    budget_usd: float | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    """Whose private notes the agents are given. None: nobody's."""
    company: str | None = None
    wait_approvals_s: float | None = None
    """How long agents wait for a person's decision. None: as the setting says."""


class FlowRun(NamedTuple):
    """The Prefect flow run that does a run, and its page.

    One that `suspends` itself waits for a person by itself, and goes on by itself.
    """

    id: str
    url: str
    suspends: bool = False


def new_run_id(runs: Path | None = None) -> str:
    """Eight hex digits, as in branch names; of no run in that folder."""
    while True:
        made = secrets.token_hex(4)
        if runs is None or not (runs / made).exists():
            return made


def repo_name(repo: str) -> str:
    """The last part of a path or URL, without `.git`."""
    whole = redacted(whole_name(repo))
    return whole.rstrip("/").rpartition("/")[2].removesuffix(".git") or whole


def whole_name(repo: str) -> str:
    """A path as it is from the root, however it was written; a URL, or no path at all, as it is."""
    return str(existing_path(repo) or repo)


def check_fits(request: RunRequest) -> None:
    """Refuse what no form takes, no commit, agent or database could hold, or is left out.

    Raises:
        BadInput: says what is wrong with it.
    """
    _check_text("repository's name", request.repo, LONGEST["repo"])
    _check_text("repository's path", whole_name(request.repo), LONGEST["repo"])
    _check_text("intent", request.intent, LONGEST["intent"])
    _check_text("name of what the intent is from", request.intent_from, LONGEST["intent_from"])
    _check_text("ref", request.ref or "", LONGEST["ref"])
    _check_text("model", request.model, LONGEST["model"])
    if request.budget_usd is not None and not 0 < request.budget_usd <= MOST_USD:
        raise BadInput(
            f"the budget is {request.budget_usd:g} US dollars: it must be above 0 and at most "
            f"{MOST_USD:g}"
        )
    for name, value in request.options.items():
        check_text("an option", f"{name}={value}")
    if request.blueprint.needs_intent and not request.intent.strip():
        raise BadInput(
            f"blueprint {request.blueprint.name!r} does what the intent says: give one, as "
            "--intent or --intent-from"
        )


def _check_text(what: str, text: str, longest: int) -> None:
    if len(text) > longest:
        raise BadInput(f"the {what} has {len(text)} characters: at most {longest} are taken")
    check_text(f"the {what}", text)


def check_options(request: RunRequest) -> None:
    """Refuse options that the blueprint does not take, and commands that cannot be read.

    Raises:
        OptionInvalid: names what was given and what is known.
    """
    known = dict(request.blueprint.options)
    for name, value in request.options.items():
        if name not in known:
            takes = ", ".join(known) or "none"
            raise OptionInvalid(
                f"blueprint {request.blueprint.name!r} has no option {name!r}; it takes: {takes}"
            )
        if OPTIONS.get(name) == known[name]:
            option_argv(value)


def check_agents(request: RunRequest, known: Collection[str]) -> None:
    """Refuse agents that nobody plays, and allowed tools that nobody can hold them to.

    Raises:
        OptionInvalid: names the known ones.
        BlueprintInvalid: what is allowed cannot be enforced for that agent.
    """
    for name in sorted({request.agent, *agents(request)} - set(known)):
        raise OptionInvalid(f"no agent {name!r}; known: {', '.join(sorted(known))}")
    for node in agentic_nodes(request.blueprint):
        check_allowed(node.agent or request.agent, node.allowed_tools)


def check_viewer(request: RunRequest) -> None:
    """Refuse a user or a company that nobody could have notes under.

    Raises:
        NoteInvalid: what is wrong with the id.
    """
    checked(Scope(user=request.user, company=request.company))


def agents(request: RunRequest) -> set[str]:
    """Names of the agents that the run's nodes are done by; empty when no node needs one."""
    return {node.agent or request.agent for node in agentic_nodes(request.blueprint)}


def models(request: RunRequest) -> set[str]:
    """Names of the models that the run may call; empty when no node needs an agent."""
    return {node.model or request.model for node in agentic_nodes(request.blueprint)}


def agentic_nodes(blueprint: Blueprint) -> list[Agentic]:
    """All nodes that an agent does, fixes included."""
    every = (node for top in blueprint.nodes for node in (top, *inner(top)))
    return [node for node in every if isinstance(node, Agentic)]
