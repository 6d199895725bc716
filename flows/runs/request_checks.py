"""Checks of a run request that need its blueprint, and of the patterns of `--allow-change`."""

from collections.abc import Collection, Sequence
from typing import Final

from contracts.errors import BadInput, OptionInvalid
from flows.runs.request import LONGEST_PATTERN, MOST_PATTERNS, ResolvedRequest, absolute_repo
from memory.scope import Scope, validate_scope
from nodes.projects.options import PROJECT_OPTIONS, check_option
from nodes.text import check_text
from policy.guard.protected import permits_every_group

EVERY_PROTECTED_FILE: Final = "every-protected-file"
"""Beside other patterns it confirms that they may permit changing everything protected."""


def check_request(
    request: ResolvedRequest, *, known_agents: Collection[str], known_servers: Collection[str]
) -> None:
    """Check a request against its blueprint, the known agents and MCP servers, and what commits
    and databases hold.

    Raises:
        BadInput: names the field, the value found, and what is allowed.
    """
    _check_options(request)
    for name in sorted(request.agents - set(known_agents)):
        raise OptionInvalid(f"no agent {name!r}; known: {', '.join(sorted(known_agents))}")
    validate_scope(Scope(user=request.user or None, company=request.company or None))
    for name in ("repo", "intent", "intent_from", "ref", "model"):
        check_text(f"the {name}", getattr(request, name))
    check_text("the repository's path", absolute_repo(request.repo))
    check_patterns(request.allow_change, request.definition.changes)
    for name in request.mcp_servers:
        if name not in known_servers:
            known = ", ".join(sorted(known_servers)) or "none: `harness mcp add` adds one"
            raise OptionInvalid(f"no MCP server {name!r} in the settings; known: {known}")
    if request.definition.needs_intent and not request.intent.strip() and not request.issue:
        raise BadInput(
            f"blueprint {request.definition.name!r} does what the intent says: give one, as "
            "--intent or --intent-from"
        )


def check_patterns(patterns: Sequence[str], of_blueprint: Sequence[str] = ()) -> None:
    """Check patterns for `--allow-change`: each must be able to match a file of a repository.

    Patterns that permit changing protected files of every kind need a confirmation beside them.

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
    wide = [one for one in (*of_blueprint, *patterns) if one != EVERY_PROTECTED_FILE]
    if permits_every_group(wide) and EVERY_PROTECTED_FILE not in patterns:
        raise BadInput(
            f"--allow-change {' '.join(map(repr, wide))} permits changing protected files of every "
            "kind: CI, hooks, package managers, agents and the rest. To confirm that, add "
            f"--allow-change {EVERY_PROTECTED_FILE}; `harness policy protected` lists them"
        )


def _check_options(request: ResolvedRequest) -> None:
    known = dict(request.definition.options)
    for name, value in request.options.items():
        check_text("an option", f"{name}={value}")
        if name not in known:
            takes = ", ".join(known) or "none"
            raise OptionInvalid(
                f"blueprint {request.definition.name!r} has no option {name!r}; it takes: {takes}"
            )
        if (
            PROJECT_OPTIONS.get(name) == known[name]
        ):  # a blueprint may give the name another meaning
            check_option(name, value)
