"""Approvals as text, and where a resumed run continues because of them. Pure functions."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from contracts.json import Json, canonical_json
from nodes.text import escape_invisible
from nodes.types import inner_nodes, step_names
from policy.guard.changed_files import COLLECTED_WORK
from policy.plan.references import refs_in
from policy.plan.registry import plain_json
from policy.types import Approval

if TYPE_CHECKING:
    from blueprints.types import Blueprint
    from flows.runs.checkpoint import Checkpoint

SHORT_ARGUMENT = 120
"""Longest argument, in characters, that is shown in a line with others."""

_DECIDED = (
    "You, or an agent before you, worked on this task in these same files before. A person has "
    "decided since about calls that were denied then. A call that is approved goes through once, "
    "if its arguments are exactly these:"
)


def headline(approval: Approval) -> str:
    """Return the requested action in one line: arguments cut short, the shortest first."""
    if approval.is_question:
        return escape_invisible(f"asks you: {approval.arguments['question']}")
    if approval.node == COLLECTED_WORK:
        return escape_invisible(f"publish a change of {approval.arguments['path']}")
    shown = [f"{name}={short_value(value)}" for name, value in approval.arguments.items()]
    args = ", ".join(sorted(shown, key=len))
    who = f"{approval.agent} in {approval.node!r}: " if approval.node else ""
    return escape_invisible(f"{who}{approval.op}({args})")


def argument_text(value: Json) -> str:
    """Return an argument for display: text unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(plain_json(value), ensure_ascii=False)


def short_value(value: Json) -> str:
    """Return a value, or the reference it is, cut to `SHORT_ARGUMENT`."""
    text = value_in_one_line(value)
    return text if len(text) <= SHORT_ARGUMENT else f"{text[: SHORT_ARGUMENT - 3]}…"


def value_in_one_line(value: Json) -> str:
    """Return a value, or the reference it is, in one line of any length."""
    refs = list(refs_in(value))
    if len(refs) == 1 and refs[0].pointer == "":
        return f"<{refs[0].ref}>"
    return escape_invisible(repr(plain_json(value)))


def argument_lines(name: str, value: Json) -> list[str]:
    """Return a whole argument, as one or more lines."""
    return _indented(one_line(name), escape_invisible(argument_text(value)))


def expired_line(undecided: Sequence[Approval]) -> str | None:
    """Return the error of a run whose approvals expired undecided, or None."""
    named = (
        f"{one.op} (approval {one.id}, until {one.expires_at:%F %H:%M} UTC)" for one in undecided
    )
    return f"nobody decided in time about {', '.join(named)}" if undecided else None


def pending_approvals(approvals: Sequence[Approval]) -> list[Approval]:
    """Return the pending approvals, oldest first."""
    return sorted(
        (one for one in approvals if one.status == "pending"), key=lambda one: one.asked_at
    )


def resume_point(
    start: "Checkpoint",
    blueprint: "Blueprint",
    approvals: Sequence[Approval],
    *,
    log_sizes: Mapping[str, int],
) -> "Checkpoint":
    """Return the checkpoint to resume a finished run from: the first node with a new approval.

    The node's agent continues its conversation. `log_sizes` are those of the run's logs by now.
    """
    may = {one.node for one in approvals if one.status == "approved"}
    if start.ended is None or not may:
        return start
    finished: set[str] = set()
    for node in blueprint.nodes:
        within = (node, *inner_nodes(node))
        names = {found.name for found in within}
        if names & may:
            again = start.again_from(finished, log_sizes)
            return again.with_word_for(node.name, decisions_text(approvals))
        finished |= names | {name for found in within for name in step_names(found)}
    return start


def decisions_text(approvals: Sequence[Approval]) -> str:
    """Return the decisions about this run as text for its agents; empty if there are none."""
    lines = [
        f"- {'approved, once' if one.status == 'approved' else 'refused'}: "
        f"{one.op} {canonical_json(one.arguments)}{f' ({one.reason})' if one.reason else ''}"
        for one in reversed(approvals)
        if one.status in ("approved", "denied")
    ]
    if not lines:
        return ""
    return "\n".join((_DECIDED, *lines))


def approval_notices(
    approvals: Sequence[Approval], run_id: str, *, suspends: bool
) -> tuple[str, ...]:
    """Return the notices of a report about denied and pending approvals.

    A run that `suspends` itself is resumed by its worker.
    """
    refused = [
        f"refused by {one.decided_by}: {one.op} in {one.node!r}"
        f"{f' ({one.reason})' if one.reason else ''}"
        for one in reversed(approvals)
        if one.status == "denied"
    ]
    waits = [
        f"waits for approval {one.id}: {one.op} in {one.node!r}, {one.denied.rule}: "
        f"{one.denied.reason}; `harness approvals show {one.id}`"
        for one in pending_approvals(approvals)
    ]
    resumed = "the run goes on by itself" if suspends else f"`harness runs resume {run_id}` goes on"
    return (*refused, *waits, *((f"once they are decided, {resumed}",) if waits else ()))


def one_line(text: str) -> str:
    """Return the text in one line, invisible characters escaped."""
    return " ".join(escape_invisible(text).split())


def _indented(name: str, text: str) -> list[str]:
    first, *more = text.split("\n")
    if not more:
        return [f"  {name}: {first}"]
    return [f"  {name}:", *(f"    {line}" for line in (first, *more))]
