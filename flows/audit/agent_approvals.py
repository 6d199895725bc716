"""Approvals of agents: the store, and their effect on the run that requested them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from blueprints.types import Blueprint
from contracts.json import canonical_json
from flows.audit.event_log import event_log, open_log
from flows.audit.run_events import log_sizes
from flows.config.policy import PolicySettings, load_policy_settings
from flows.runs.checkpoint import Checkpoint
from flows.runs.home import home_owner
from nodes.types import inner_nodes, step_names
from policy.types import Approval

if TYPE_CHECKING:
    from policy.log.event_log import EventLog
    from policy.plan.approvals import Approvals

_DECIDED = (
    "You, or an agent before you, worked on this task in these same files before. A person has "
    "decided since about calls that were denied then. A call that is approved goes through once, "
    "if its arguments are exactly these:"
)


def cached_approvals(home: Path) -> "Callable[[], Approvals]":
    """Return a function that opens the approvals of this home once and keeps them open.

    Raises (when called):
        SettingsInvalid, StoreUnavailable.
    """

    @cache
    def opened() -> "Approvals":
        return make_approvals(open_log(home, home_owner(home)), load_policy_settings())

    return opened


@contextmanager
def open_approvals(home: Path) -> "Iterator[Approvals]":
    """Give the approvals of this home until the block ends.

    Raises:
        SettingsInvalid, StoreUnavailable, LogUnavailable.
    """
    with event_log(home, home_owner(home)) as log:
        yield make_approvals(log, load_policy_settings())


def make_approvals(log: "EventLog", policy: PolicySettings) -> "Approvals":
    """Return the approvals in the database of this log; their decisions are appended to the log."""
    from policy.plan.approvals import Approvals  # imports sqlalchemy, which most agents never need

    return Approvals(
        engine=log.engine, append=lambda draft: log.append([draft]), ttl_s=policy.approval_ttl_s
    )


def pending_approvals(approvals: Sequence[Approval]) -> list[Approval]:
    """Return the pending approvals, oldest first."""
    return sorted(
        (one for one in approvals if one.status == "pending"), key=lambda one: one.asked_at
    )


def resume_point(
    start: Checkpoint, blueprint: Blueprint, approvals: Sequence[Approval], *, folder: Path
) -> Checkpoint:
    """Return the checkpoint to resume a finished run from: the first node with a new approval.

    The node's agent continues its conversation. `folder` is the folder of the run.
    """
    may = {one.node for one in approvals if one.status == "approved"}
    if start.ended is None or not may:
        return start
    finished: set[str] = set()
    for node in blueprint.nodes:
        within = (node, *inner_nodes(node))
        names = {found.name for found in within}
        if names & may:
            again = start.again_from(finished, log_sizes(folder))
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
    who = "the run goes on by itself" if suspends else f"`harness runs resume {run_id}` goes on"
    return (*refused, *waits, *((f"once they are decided, {who}",) if waits else ()))
