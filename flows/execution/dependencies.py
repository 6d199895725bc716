"""What a run works with: settings, and functions that open things for as long as it lasts."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from blueprints.types import Blueprint
from contracts.model_access import GuardBounds
from contracts.sandbox import PersistentSandbox, SnapshotId
from flows.audit.run_events import AppendEvents
from flows.execution.pull_requests import OpenPullRequest
from flows.recall.notes import RunNotes
from flows.recall.playbooks import RunMemory
from flows.runs.checkpoint import UsedBudget
from flows.runs.request import ResolvedRequest, RunRequest
from nodes.agents.types import ConversationStore
from nodes.execute import RunAgent
from nodes.text import Redact
from policy.log.view_spec import ViewSpec
from sandbox.egress import OnEvent
from sandbox.repos import FindSource

if TYPE_CHECKING:
    from policy.plan.approvals import Approvals

Tell = Callable[[str, str], None]
"""Takes a node's name and one line of what happens in it."""


class OpenedSandbox(NamedTuple):
    """A sandbox, and the variables that its commands need to find the way out."""

    sandbox: PersistentSandbox
    env: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class RunDependencies:
    """Everything a run needs from outside; built in `flows/execution/wiring.py`."""

    runs: Path
    repos: Path
    env: dict[str, str]
    redact: Redact
    resolve_request: Callable[[RunRequest, Blueprint], ResolvedRequest]
    """Fills in the settings' defaults."""
    check_request: Callable[[ResolvedRequest], tuple[str, ...]]
    """Refuses what cannot be run, before anything is started; gives notices for a person."""
    find_source: FindSource
    """The commit that a run begins with; asked for again, it is not looked for again."""
    open_sandbox: Callable[
        [ResolvedRequest, str, OnEvent, SnapshotId | None], AbstractContextManager[OpenedSandbox]
    ]
    """A sandbox for this request and run id, gone when the block ends; it reaches the operator's
    hosts and the blueprint's, and tells what it tried. It is fresh, or has a checkpoint's files."""
    snapshot_ttl_s: float
    """How long the files of a run that stopped are kept."""
    remove_snapshots: Callable[[str, Collection[SnapshotId]], None]
    """Removes what is kept of a run's files, by its id, except what it is given."""
    memory: RunMemory
    open_pull_request: OpenPullRequest
    """Opens the pull request of what was pushed."""
    open_notes: Callable[[], AbstractContextManager[RunNotes]]
    """The notebook, for as long as a run lasts."""
    open_agents: Callable[
        [ResolvedRequest, str, Path, Tell, UsedBudget, ConversationStore],
        AbstractContextManager[RunAgent],
    ]
    """Who does agentic nodes of this request and run id; the trajectory goes to the folder.
    The agents begin with what the run has used and said before it stopped, if it did."""
    bounds: Callable[[ResolvedRequest], GuardBounds | None]
    """What the guard of this request's agents goes by, besides the tools that nodes allow."""
    open_approvals: Callable[[], "AbstractContextManager[Approvals]"]
    """Opens what is asked of a person."""
    open_event_log: Callable[[], AbstractContextManager[AppendEvents]]
    """Opens the event log while the run waits for its sandbox."""
    run_view: Callable[[str], ViewSpec]
    """The page of a run, by its id, as its events tell it."""
