"""A run's checkpoint, renewed as it goes, and never performing again what is in it."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import RLock, Thread
from time import monotonic
from typing import NamedTuple

from blueprints.engine import WrapNode
from contracts.errors import SandboxLost
from contracts.run import NodeResult, without_attempt
from contracts.sandbox import PersistentSandbox, SnapshotId
from flows.runs.checkpoint import Checkpoint, dumps
from flows.runs.home import write_in_home
from flows.runs.layout import CHECKPOINT
from flows.runs.snapshots import SnapshotTracker
from nodes.agents.types import Conversation, ConversationStore, StillCurrent
from nodes.types import Agentic, Compete, Node


class Checkpoints:
    """The checkpoint of one run, renewed after each node, step and fix, and each turn of an agent.

    `forget` removes what is kept of the run's files but for those it is given. Nodes beside each
    other may use it at once.
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
        self._where: dict[str, _Place] = {}
        self._ended: dict[str, Conversation] = {}
        self._lock = RLock()
        self._began = monotonic() - start.elapsed_ms / 1000

    @property
    def elapsed_ms(self) -> int:
        """How long the run has taken, without the time in which it was stopped."""
        return round((monotonic() - self._began) * 1000)

    @property
    def talks(self) -> ConversationStore:
        """Where the conversations of this run's agents are kept."""
        return ConversationStore(self._read_talk, self._keep_talk, self._ended.__setitem__)

    def prepare(self, sandbox: PersistentSandbox) -> None:
        """Let the sandbox find out where commands can write, while other things are done."""

        def look() -> None:
            with suppress(SandboxLost):  # whoever works in it will tell
                sandbox.changed_since(sandbox.now())

        Thread(target=look, name="checkpoints", daemon=True).start()

    def follow(self, sandbox: PersistentSandbox) -> None:
        """From here on keep this sandbox's files; they are as the checkpoint has them."""
        self._files = SnapshotTracker(sandbox, self.current.files, self._ttl_s)

    def fork_of(self, entrant: str) -> SnapshotId | None:
        """The files of an agent that competed when the run stopped."""
        return self.current.forks.get(entrant)

    def perform(self, perform: WrapNode, model: str) -> WrapNode:
        """The same `perform`, which never performs again what is finished.

        `model` is whom agents ask whose node names none. A result is kept before anybody
        learns of it.
        """
        return self._perform(perform, model, lambda: _Place(self._files))

    def perform_in_lane(
        self, perform: WrapNode, model: str, entrant: str, place: PersistentSandbox
    ) -> WrapNode:
        """The same for one lane: of an entrant in a fork of its own, or unnamed among others."""
        if not entrant:
            return self._perform(perform, model, lambda: _Place(self._files, shared=True))
        fork = _Place(SnapshotTracker(place, self.fork_of(entrant), self._ttl_s), entrant=entrant)
        return self._perform(perform, model, lambda: fork)

    def save(self, now: Checkpoint) -> None:
        """Write this down as the newest state; a reader sees the old one or the new one."""
        with self._lock:
            self.current = replace(now, elapsed_ms=self.elapsed_ms)
            write_in_home(self._path, dumps(self.current), run_id=self._path.parent.name)

    def drop(self) -> None:
        """The run is over: nobody goes on from here."""
        self._path.unlink(missing_ok=True)
        if self.current.images or self.current.went_on:
            self._forget(())

    def _perform(self, perform: WrapNode, model: str, place: "Callable[[], _Place]") -> WrapNode:
        def perform_once(node: Node, execute: Callable[[], NodeResult]) -> NodeResult:
            def kept() -> NodeResult:
                self._where[node.name] = place()
                return self._keep(node, execute(), model)

            known = self.current.results.get(node.name)
            return known if known is not None else perform(node, kept)

        return perform_once

    def _keep(self, node: Node, result: NodeResult, model: str) -> NodeResult:
        place = self._where[node.name]
        with self._lock:
            now = self._with_files(place)
            over = {entrant.name for entrant in node.entrants} if isinstance(node, Compete) else ()
            self._renew(
                replace(
                    now,
                    results={**now.results, node.name: result},
                    replies=dict(Counter(now.replies) + _replies(node, result, model)),
                    talks=_but(now.talks, node.name),
                    waiting=_but(now.waiting, node.name) | self._waiting(node, place),
                    forks={name: image for name, image in now.forks.items() if name not in over},
                )
            )
        return result

    def _waiting(self, node: Node, place: "_Place") -> dict[str, Conversation]:
        """What a finished agent said, where it can be gone on with: its files stay as they are."""
        talk = self._ended.pop(node.name, None)
        alone = not place.shared and not place.entrant and without_attempt(node.name) == node.name
        return {node.name: talk} if talk and alone else {}

    def _read_talk(self, node: str) -> Conversation | None:
        return self.current.talks.get(node)

    def _keep_talk(self, node: str, talk: Conversation, still: StillCurrent) -> None:
        """Keep it with the files, unless these belong to others too, or change meanwhile."""
        place = self._where[node]
        if place.files is None or place.shared:
            return
        if place.files.dear and place.files.touched():
            return
        with self._lock:
            now = self._with_files(place)
            if still():
                self._renew(replace(now, talks={**now.talks, node: talk}))
            else:
                place.files.soil()

    def _with_files(self, place: "_Place") -> Checkpoint:
        if place.files is None:
            return self.current
        image = place.files.keep(shared=place.shared)
        if place.entrant:
            forks = {**self.current.forks, **({place.entrant: image} if image else {})}
            return replace(self.current, forks=forks)
        return replace(self.current, files=image)

    def _renew(self, now: Checkpoint) -> None:
        before = self.current.images
        self.save(now)
        if before - now.images:
            self._forget(now.images)


class _Place(NamedTuple):
    """Where a node works: whose files they are, and whether others change them meanwhile."""

    files: SnapshotTracker | None
    shared: bool = False
    entrant: str = ""


def _but(talks: Mapping[str, Conversation], node: str) -> dict[str, Conversation]:
    return {name: talk for name, talk in talks.items() if name != node}


def _replies(node: Node, result: NodeResult, model: str) -> Counter[str]:
    """How many replies a node took; those of the nodes in it are counted with these."""
    return Counter({node.model or model: result.turns} if isinstance(node, Agentic) else {})
