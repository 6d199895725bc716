"""Saves a checkpoint and a snapshot after each node, and skips the nodes that it already holds."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from threading import RLock
from time import monotonic, sleep, time
from typing import NamedTuple

from blueprints.engine import WrapNode
from contracts.run import NodeResult, without_attempt
from contracts.sandbox import PersistentSandbox, SnapshotId
from flows.runs.checkpoint import Checkpoint, dumps
from flows.runs.home import CHECKPOINT, KEPT, write_in_home
from nodes.agents.types import Conversation, ConversationStore, StillCurrent
from nodes.types import Agentic, Compete, Node

_TICK_S = 0.02
"""Longer than one tick of the kernel clock that sets change times."""

_FREE_S = 3.0
_SHARE = 0.1
"""Largest share of an agent's time that snapshots in the middle of its work may take, after the
first `_FREE_S` seconds."""


class SnapshotTracker:
    """Tracks a sandbox whose files match the snapshot `kept`; None: they are as cloned."""

    def __init__(self, sandbox: PersistentSandbox, kept: SnapshotId | None, ttl_s: float) -> None:
        sleep(_TICK_S)  # so that a change from now on gets a later time than the clone
        self.kept = kept
        self._sandbox = sandbox
        self._ttl_s = ttl_s
        self._began = monotonic()
        self._spent_s = 0.0
        self._unchanged_since = 0.0
        self._drift = 0.0
        self._mark_saved(sandbox.now())

    @property
    def is_expensive(self) -> bool:
        """True if snapshots have taken so much of the time that the next one should wait."""
        return self._spent_s > _FREE_S + _SHARE * (monotonic() - self._began)

    def save(self, *, shared: bool = False) -> SnapshotId | None:
        """Return a snapshot of the current files; take a new one only if they have changed.

        `shared`: other nodes may change the files at the same time.

        Raises:
            SandboxLost: the sandbox is gone.
        """
        if self.has_changed():
            began, before = monotonic(), self._sandbox.now() if shared else 0.0
            self.kept = self._sandbox.checkpoint(self._ttl_s)
            self._mark_saved(before if shared else self._sandbox.now())
            self._spent_s += monotonic() - began
        return self.kept

    def has_changed(self) -> bool:
        """Return True if a file may have changed since the last snapshot."""
        # A clock that was set back gives new changes old times: then assume a change.
        set_back = time() - monotonic() < self._drift - _TICK_S / 2
        return set_back or self._sandbox.changed_since(self._unchanged_since)

    def discard(self) -> None:
        """Discard the last snapshot: take a new one next time even if no file changes."""
        self._unchanged_since = 0.0

    def _mark_saved(self, moment: float) -> None:
        self._unchanged_since = moment - _TICK_S / 2
        self._drift = time() - monotonic()


class _Place(NamedTuple):
    """The files that a node works in, and whether other nodes change them at the same time."""

    files: SnapshotTracker | None
    shared: bool = False
    entrant: str = ""


class Checkpoints:
    """The checkpoint of one run, saved after each node, step, fix and turn of an agent.

    `forget` removes the run's snapshots except those it is given. Safe for nodes in parallel.
    """

    def __init__(
        self,
        folder: Path,
        start: Checkpoint,
        *,
        ttl_s: float,
        forget: Callable[[Collection[SnapshotId]], None],
    ) -> None:
        self.current = start
        self._path = folder / CHECKPOINT
        self._ttl_s = ttl_s
        self._forget = forget
        self._files: SnapshotTracker | None = None
        self._keeps_talks = False
        self._where: dict[str, _Place] = {}
        self._ended: dict[str, Conversation] = {}
        self._lock = RLock()
        self._began = monotonic() - start.elapsed_ms / 1000

    @property
    def elapsed_ms(self) -> int:
        """Milliseconds that the run has taken, without the time between stop and resume."""
        return round((monotonic() - self._began) * 1000)

    @property
    def talks(self) -> ConversationStore:
        """Storage for the conversations of this run's agents."""
        return ConversationStore(
            self._read_talk, self._save_talk, self._ended.__setitem__, self._keeps_talks
        )

    def expect_rounds(self) -> None:
        """Keep the conversations of agents that finish, and the files as the commit leaves them."""
        self._keeps_talks = True

    def follow(self, sandbox: PersistentSandbox) -> None:
        """Save the files of this sandbox from now on. They match the current checkpoint."""
        self._files = SnapshotTracker(sandbox, self.current.files, self._ttl_s)

    def fork_of(self, entrant: str) -> SnapshotId | None:
        """Return the snapshot of an agent that was competing when the run stopped."""
        return self.current.forks.get(entrant)

    def perform(self, perform: WrapNode) -> WrapNode:
        """Wrap `perform`: return the saved result of a finished node, save the result of any other.

        A result is saved before any other part of the run sees it.
        """
        return self._perform(perform, lambda: _Place(self._files))

    def perform_in_lane(
        self, perform: WrapNode, entrant: str, place: PersistentSandbox
    ) -> WrapNode:
        """Like `perform`, for a competing agent in its own fork, or a parallel node (no name)."""
        if not entrant:
            return self._perform(perform, lambda: _Place(self._files, shared=True))
        fork = _Place(SnapshotTracker(place, self.fork_of(entrant), self._ttl_s), entrant=entrant)
        return self._perform(perform, lambda: fork)

    def save(self, now: Checkpoint) -> None:
        """Write a new checkpoint atomically."""
        with self._lock:
            self.current = replace(now, elapsed_ms=self.elapsed_ms)
            write_in_home(self._path, dumps(self.current), run_id=self._path.parent.name)

    def save_end(self, now: Checkpoint) -> None:
        """Write the checkpoint after the last node."""
        if self._keeps_talks and self._files is not None:
            now = replace(now, files=self._files.save())
        self._replace(now)

    def keep(self) -> None:
        """Set the checkpoint of a run that is over aside; a comment may continue it."""
        self._path.replace(self._path.with_name(KEPT))

    def drop(self) -> None:
        """Delete the checkpoint and the snapshots of a run that is over."""
        self._path.unlink(missing_ok=True)
        if self.current.images or self.current.went_on:
            self._forget(())

    def _perform(self, perform: WrapNode, place: "Callable[[], _Place]") -> WrapNode:
        def perform_once(node: Node, execute: Callable[[], NodeResult]) -> NodeResult:
            def kept() -> NodeResult:
                self._where[node.name] = place()
                return self._save_result(node, execute())

            known = self.current.results.get(node.name)
            return known if known is not None else perform(node, kept)

        return perform_once

    def _save_result(self, node: Node, result: NodeResult) -> NodeResult:
        place = self._where[node.name]
        with self._lock:
            now = self._with_files(place)
            over = {entrant.name for entrant in node.entrants} if isinstance(node, Compete) else ()
            self._replace(
                replace(
                    now,
                    results={**now.results, node.name: result},
                    replies=dict(Counter(now.replies) + Counter(_answers(node, result))),
                    talks=_without(now.talks, node.name),
                    waiting=_without(now.waiting, node.name) | self._waiting(node, place),
                    forks={name: image for name, image in now.forks.items() if name not in over},
                )
            )
        return result

    def _waiting(self, node: Node, place: "_Place") -> dict[str, Conversation]:
        """Return the conversation of a finished agent if a person may still lift a denial in it."""
        talk = self._ended.pop(node.name, None)
        alone = not place.shared and not place.entrant and without_attempt(node.name) == node.name
        return {node.name: talk} if talk and alone else {}

    def _read_talk(self, node: str) -> Conversation | None:
        return self.current.talks.get(node)

    def _save_talk(self, node: str, talk: Conversation, still: StillCurrent) -> None:
        """Save the conversation with a snapshot, unless other nodes share or change the files."""
        place = self._where[node]
        if place.files is None or place.shared:
            return
        if place.files.is_expensive and place.files.has_changed():
            return
        with self._lock:
            now = self._with_files(place)
            if still():
                self._replace(replace(now, talks={**now.talks, node: talk}))
            else:
                place.files.discard()

    def _with_files(self, place: "_Place") -> Checkpoint:
        if place.files is None:
            return self.current
        image = place.files.save(shared=place.shared)
        if place.entrant:
            forks = {**self.current.forks, **({place.entrant: image} if image else {})}
            return replace(self.current, forks=forks)
        return replace(self.current, files=image)

    def _replace(self, now: Checkpoint) -> None:
        before = self.current.images
        self.save(now)
        if before - now.images:
            self._forget(now.images)


def _without(talks: Mapping[str, Conversation], node: str) -> dict[str, Conversation]:
    return {name: talk for name, talk in talks.items() if name != node}


def _answers(node: Node, result: NodeResult) -> Mapping[str, int]:
    """Return the replies that an agent used, by model. Nodes inside others count for themselves."""
    return result.answers if isinstance(node, Agentic) else {}
