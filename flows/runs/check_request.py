"""Checks of a run request that need its blueprint: options, agents, limits of git and SQLite."""

from collections.abc import Collection, Sequence

from contracts.errors import BadInput, OptionInvalid
from contracts.text import check_text
from flows.runs.request import LONGEST_PATTERN, MOST_PATTERNS, ResolvedRequest, absolute_repo
from memory.scope import Scope, validate_scope
from nodes.agents.allowed_tools import check_allowed_tools
from nodes.projects.options import PROJECT_OPTIONS, check_option


def check_request(request: ResolvedRequest, *, known_agents: Collection[str]) -> None:
    """Check a request against its blueprint, the known agents, and what commits and databases hold.

    Raises:
        BadInput: names the field, the value found, and what is allowed.
    """
    _check_options(request)
    _check_agents(request, known_agents)
    validate_scope(Scope(user=request.user or None, company=request.company or None))
    for name in ("repo", "intent", "intent_from", "ref", "model"):
        check_text(f"the {name}", getattr(request, name))
    check_text("the repository's path", absolute_repo(request.repo))
    check_patterns(request.allow_change)
    for name, value in request.options.items():
        check_text("an option", f"{name}={value}")
    if request.definition.needs_intent and not request.intent.strip():
        raise BadInput(
            f"blueprint {request.definition.name!r} does what the intent says: give one, as "
            "--intent or --intent-from"
        )


def check_patterns(patterns: Sequence[str]) -> None:
    """Check patterns for `--allow-change`: each must be able to match a file of a repository.

    Raises:
        BadInput: names the pattern.
    """
    if len(patterns) > MOST_PATTERNS:
        raise BadInput(f"--allow-change: {len(patterns)} patterns, at most {MOST_PATTERNS}")
    for pattern in patterns:
        check_text("the pattern of --allow-change", pattern)
        if len(pattern) > LONGEST_PATTERN:
            raise BadInput(
                f"--allow-change: a pattern has {len(pattern)} characters: at most "
                f"{LONGEST_PATTERN} are allowed"
            )
        if not pattern.strip() or {"", ".", ".."} & set(pattern.split("/")):
            raise BadInput(
                f"--allow-change {pattern!r}: give a path or pattern from the repository's root, "
                "such as '.github/workflows/*', without '/' at either end and without '.' or '..'"
            )


def _check_options(request: ResolvedRequest) -> None:
    known = dict(request.definition.options)
    for name, value in request.options.items():
        if name not in known:
            takes = ", ".join(known) or "none"
            raise OptionInvalid(
                f"blueprint {request.definition.name!r} has no option {name!r}; it takes: {takes}"
            )
        if PROJECT_OPTIONS.get(name) == known[name]:
            check_option(name, value)


def _check_agents(request: ResolvedRequest, known: Collection[str]) -> None:
    for name in sorted(request.agents - set(known)):
        raise OptionInvalid(f"no agent {name!r}; known: {', '.join(sorted(known))}")
    for node in request.agentic_nodes:
        check_allowed_tools(node.agent or request.agent, node.allowed_tools)
