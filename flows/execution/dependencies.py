"""The dependencies of a run: folders, and functions that open stores, sandboxes and agents."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from blueprints.types import Blueprint
from contracts.model_access import GuardBounds
from contracts.sandbox import PersistentSandbox, SnapshotId
from flows.audit.event_log import AppendEvents
from flows.execution.installs import RunInstalls, Start
from flows.execution.token_budget import TokenBudget
from flows.forge.pulls import FindForge
from flows.recall.notes import RunNotes
from flows.recall.playbooks import RunMemory
from flows.runs.checkpoint import UsedBudget
from flows.runs.request import ResolvedRequest, RunRequest
from flows.views.spec import ViewSpec
from nodes.agents.types import ConversationStore
from nodes.execute import RunAgent
from nodes.text import Redact
from sandbox.egress import OnEvent
from sandbox.environments import Environment
from sandbox.repos import BaseCommit, FindSource

if TYPE_CHECKING:
    from policy.plan.approvals import Approvals

Tell = Callable[[str, str], None]
"""Takes a node's name and one line of its output."""


class OpenedSandbox(NamedTuple):
    """A sandbox, and the environment variables that lead its commands to the egress proxy."""

    sandbox: PersistentSandbox
    env: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class RunDependencies:
    """Everything that a run needs from outside. `flows/execution/wiring.py` builds it."""

    runs: Path
    repos: Path
    env: dict[str, str]
    redact: Redact
    resolve_request: Callable[[RunRequest, Blueprint], ResolvedRequest]
    """Loads the blueprint's defaults and those of the settings into a request."""
    check_request: Callable[[ResolvedRequest], tuple[str, ...]]
    """Raises for a request that cannot run, before anything starts; returns notices for the
    user."""
    find_source: FindSource
    """Finds the base commit of a request. Caches it."""
    inspect_base: Callable[[ResolvedRequest, BaseCommit], BaseCommit]
    """Adds notices about links and secrets of a base commit, and decides whether the run has a way
    out of its sandbox."""
    prepare_toolchain: Callable[
        [ResolvedRequest, BaseCommit, Callable[[str], None]], ResolvedRequest
    ]
    """Adds what the project of the base commit needs in its sandbox to the request, and builds the
    image with it; the last argument takes lines of the build."""
    open_sandbox: Callable[
        [ResolvedRequest, str, OnEvent, SnapshotId | None], AbstractContextManager[OpenedSandbox]
    ]
    """Starts the sandbox of a request and run id, fresh or from a snapshot. It reaches the hosts
    that the operator and the blueprint allow, logs each attempt, and is removed after the block."""
    find_start: Callable[[ResolvedRequest, BaseCommit], Start | None]
    """Returns the image or kept environment that the sandbox of a request starts from. None: no
    environment is kept."""
    remove_environment: Callable[[Environment], bool]
    """Removes a kept environment that is broken."""
    open_installs: Callable[
        [ResolvedRequest, Start | None, OnEvent, Callable[[str], None]], RunInstalls
    ]
    """Returns what a run offers to its install. The last argument takes notices for the report."""
    snapshot_ttl_s: float
    """Seconds that the snapshots of a stopped run are kept."""
    remove_snapshots: Callable[[str, Collection[SnapshotId]], None]
    """Takes a run id and snapshots to keep; removes the run's other snapshots."""
    memory: RunMemory
    find_forge: FindForge
    """Finds the forge of a remote, where pushed branches become pull requests."""
    send_notification: Callable[[str, str, str], None]
    """Takes a notification block of Prefect, a subject and a text."""
    open_notes: Callable[[], AbstractContextManager[RunNotes]]
    """Opens the notebook for one run."""
    open_agents: Callable[
        [ResolvedRequest, str, Path, Tell, UsedBudget, ConversationStore],
        AbstractContextManager[RunAgent],
    ]
    """Opens the agents of a request and run id. They write the trajectory into the folder, and
    start with the budget and conversations that a stopped run had used."""
    token_budget: Callable[[ResolvedRequest], TokenBudget]
    """Returns what bounds a run whose model has no known price."""
    bounds: Callable[[ResolvedRequest], GuardBounds | None]
    """Returns the guard's bounds for a request; the tools that nodes allow are separate."""
    open_approvals: Callable[[], "AbstractContextManager[Approvals]"]
    """Opens the store of approvals."""
    open_event_log: Callable[[], AbstractContextManager[AppendEvents]]
    """Opens the event log at the first append."""
    run_view: Callable[[str], ViewSpec]
    """Returns the page of a run, by its id, from its events."""
