"""What a run is told about its base commit before it starts: rules, secrets, links leading out."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from flows.config.policy import PolicySettings
from flows.execution.toolchain import project_files
from flows.runs.request import ResolvedRequest
from nodes.agents.rule_files import Rules, find_rules
from nodes.projects.types import MAX_TEXT_BYTES
from nodes.text import escape_invisible
from policy.guard.guard import is_secret_file
from policy.guard.links import SymbolicLinks
from sandbox.commit_files import commit_files
from sandbox.diffs import symlinks
from sandbox.repos import BaseCommit
from sandbox.tracked_secrets import tracked_secrets

_NAMED = 5
"""Paths that a notice names; it counts the others."""


def inspected_base(
    base: BaseCommit, request: ResolvedRequest, policy: PolicySettings, egress: Sequence[str]
) -> BaseCommit:
    """Return the base with notices, and without a way out if it tracks secrets.

    `egress` are the hosts that the settings open; the blueprint may open more.
    """
    outside = SymbolicLinks(symlinks(base, base.commit)).outside
    has_way_out = bool(egress or request.definition.egress)
    secrets: tuple[str, ...] = ()
    if policy.guard:
        secrets = tracked_secrets(
            base, lambda path: is_secret_file(path, policy.secret), history=has_way_out
        )
    closes = bool(secrets) and has_way_out and policy.tracked_secrets == "close"
    notices = _notices(outside, secrets, has_way_out=has_way_out, closes=closes)
    return replace(base, notices=(*base.notices, *notices), way_out=not closes)


def rules_for_agents(base: BaseCommit) -> Rules:
    """Return what the rule files of the base commit say, such as `AGENTS.md`."""
    return find_rules(project_files(commit_files(base, MAX_TEXT_BYTES)))


def _notices(
    outside: Sequence[str], secrets: Sequence[str], *, has_way_out: bool, closes: bool
) -> Iterator[str]:
    if outside:
        yield f"links that lead out of the repository: {_few(outside)}"
    if secrets:
        told = "agents can read them"
        if closes:
            told = (
                "so commands of this run reach no host; remove them, or set [policy] "
                'tracked_secrets = "open"'
            )
        elif has_way_out:
            told = "agents can read them and reach the allowed hosts"
        yield f"git tracks files that look like secrets: {_few(secrets)}: {told}"


def _few(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return escape_invisible(", ".join(map(repr, paths[:_NAMED]))) + more
