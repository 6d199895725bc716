"""What a run has done so far, kept so that another process can go on where it stopped."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import RLock, Thread
from time import monotonic, time
from types import MappingProxyType
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from blueprints.engine import Perform
from contracts.errors import RunNotResumable, SandboxLost
from contracts.gate import Spent
from contracts.run import NodeResult
from contracts.sandbox import LastingSandbox, SnapshotId
from flows.asked import write_whole
from flows.files import Files
from flows.runs import CHECKPOINT
from nodes.agents.talk import Still, Talk, Talks
from nodes.types import Agentic, Compete, Node
from sandbox.repos import Base
from sandbox.workspace import Work

VERSION = 1


class Used(NamedTuple):
    """What the agents of a run have used so far: money, and replies of each model."""

    cost_usd: float = 0.0
    replies: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A run that can go on.

    `results` are by the name under which a node, step or fix was performed, `talks` what was said
    in those that were not finished, `waiting` in those that were denied what a person may yet
    allow. `files` are the sandbox's with these; None means as they were
    put in. `forks` are those of agents that compete, `lost` names the branches of those that did
    not win. `ended` are the context's results once the nodes came to their end, and `work` is then
    what they made of the repository; `published` is the commit that the user's branch shows.
    `spent_usd` was spent in nodes that are done again, `heard` is how much of the run's own logs
    tells of them.
    """

    version: int = VERSION
    base: Base
    results: Mapping[str, NodeResult] = field(default_factory=dict)
    replies: Mapping[str, int] = field(default_factory=dict)
    talks: Mapping[str, Talk] = field(default_factory=dict)
    waiting: Mapping[str, Talk] = field(default_factory=dict)
    files: SnapshotId | None = None
    forks: Mapping[str, SnapshotId] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    elapsed_ms: int = 0
    ended: Mapping[str, NodeResult] | None = None
    work: Work | None = None
    published: str | None = None
    spent_usd: float = 0.0
    heard: Mapping[str, int] = field(default_factory=dict)
    went_on: tuple[str, ...] = ()

    @property
    def used(self) -> Used:
        """What agents have used in the results and conversations that are kept."""
        beside = {name: r for top in self.results.values() for name, r in top.lanes.items()}
        spent = [result.usage for result in {**beside, **self.results}.values()]
        spent += [talk.spent.usage for talk in self.talks.values()]
        replies = Counter(self.replies)
        for talk in self.talks.values():
            replies[talk.model] += talk.spent.turns
        return Used(self.spent_usd + sum(usage.cost_usd for usage in spent), dict(replies))

    @property
    def images(self) -> frozenset[SnapshotId]:
        """All that this stands on in the Docker engine."""
        return frozenset(filter(None, (self.files, *self.forks.values())))

    def again_from(self, finished: Collection[str], heard: Mapping[str, int]) -> "Checkpoint":
        """The same files, to go on after these: what else was done is done again in them."""
        kept = {name: r for name, r in self.results.items() if _plain(name) in finished}
        without = replace(self, results=kept, ended=None, work=None, heard=heard)
        return replace(without, spent_usd=self.used.cost_usd - without.used.cost_usd)

    def with_word_for(self, node: str, said: str) -> "Checkpoint":
        """The same, where the agent of this node goes on with its conversation, told this first.

        Its limits begin anew. Where nothing is kept of it, it begins another conversation.
        """
        talk = self.waiting.get(node)
        if talk is None:
            return self
        return replace(self, talks={node: replace(talk, told=said, spent=Spent(), elapsed_s=0.0)})


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
        self.now = start
        self._path = folder / CHECKPOINT
        self._ttl_s = ttl_s
        self._forget = forget
        self._files: Files | None = None
        self._where: dict[str, _Place] = {}
        self._ended: dict[str, Talk] = {}
        self._lock = RLock()
        self._began = monotonic() - start.elapsed_ms / 1000

    @property
    def elapsed_ms(self) -> int:
        """How long the run has taken, without the time in which it was stopped."""
        return round((monotonic() - self._began) * 1000)

    @property
    def talks(self) -> Talks:
        """Where the conversations of this run's agents are kept."""
        return Talks(self._read_talk, self._keep_talk, self._ended.__setitem__)

    def prepare(self, sandbox: LastingSandbox) -> None:
        """Let the sandbox find out where commands can write, while other things are done."""

        def look() -> None:
            with suppress(SandboxLost):  # whoever works in it will tell
                sandbox.changed_since(time())

        Thread(target=look, name="checkpoints", daemon=True).start()

    def follow(self, sandbox: LastingSandbox) -> None:
        """From here on keep this sandbox's files; they are as the checkpoint has them."""
        self._files = Files(sandbox, self.now.files, self._ttl_s)

    def fork_of(self, entrant: str) -> SnapshotId | None:
        """The files of an agent that competed when the run stopped."""
        return self.now.forks.get(entrant)

    def perform(self, perform: Perform, model: str) -> Perform:
        """The same `perform`, which never performs again what is finished.

        `model` is whom agents ask whose node names none. A result is kept before anybody
        learns of it.
        """
        return self._perform(perform, model, lambda: _Place(self._files))

    def beside(self, perform: Perform, model: str, entrant: str, place: LastingSandbox) -> Perform:
        """The same for one lane: of an entrant in a fork of its own, or unnamed among others."""
        if not entrant:
            return self._perform(perform, model, lambda: _Place(self._files, shared=True))
        fork = _Place(Files(place, self.fork_of(entrant), self._ttl_s), entrant=entrant)
        return self._perform(perform, model, lambda: fork)

    def save(self, now: Checkpoint) -> None:
        """Write this down as the newest state; a reader sees the old one or the new one."""
        with self._lock:
            self.now = replace(now, elapsed_ms=self.elapsed_ms)
            write_whole(self._path, dumps(self.now))

    def drop(self) -> None:
        """The run is over: nobody goes on from here."""
        self._path.unlink(missing_ok=True)
        if self.now.images or self.now.went_on:
            self._forget(())

    def _perform(self, perform: Perform, model: str, place: "Callable[[], _Place]") -> Perform:
        def perform_once(node: Node, execute: Callable[[], NodeResult]) -> NodeResult:
            def kept() -> NodeResult:
                self._where[node.name] = place()
                return self._keep(node, execute(), model)

            known = self.now.results.get(node.name)
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

    def _waiting(self, node: Node, place: "_Place") -> dict[str, Talk]:
        """What a finished agent said, where it can be gone on with: its files stay as they are."""
        talk = self._ended.pop(node.name, None)
        alone = not place.shared and not place.entrant and _plain(node.name) == node.name
        return {node.name: talk} if talk and alone else {}

    def _read_talk(self, node: str) -> Talk | None:
        return self.now.talks.get(node)

    def _keep_talk(self, node: str, talk: Talk, still: Still) -> None:
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
            return self.now
        image = place.files.keep(shared=place.shared)
        if place.entrant:
            forks = {**self.now.forks, **({place.entrant: image} if image else {})}
            return replace(self.now, forks=forks)
        return replace(self.now, files=image)

    def _renew(self, now: Checkpoint) -> None:
        before = self.now.images
        self.save(now)
        if before - now.images:
            self._forget(now.images)


class _Place(NamedTuple):
    """Where a node works: whose files they are, and whether others change them meanwhile."""

    files: Files | None
    shared: bool = False
    entrant: str = ""


def _plain(name: str) -> str:
    """The node that a step or an attempt belongs to: of `tests/run (attempt 2)` it is `tests`."""
    return name.split(" (attempt ", maxsplit=1)[0].split("/", maxsplit=1)[0]


def _but(talks: Mapping[str, Talk], node: str) -> dict[str, Talk]:
    return {name: talk for name, talk in talks.items() if name != node}


def _replies(node: Node, result: NodeResult, model: str) -> Counter[str]:
    """How many replies a node took; those of the nodes in it are counted with these."""
    return Counter({node.model or model: result.turns} if isinstance(node, Agentic) else {})


def begin(folder: Path, base: Base) -> Checkpoint:
    """The checkpoint of a run that has done nothing yet, written down."""
    start = Checkpoint(base=base)
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / CHECKPOINT, dumps(start))
    return start


def read(folder: Path, repo: str) -> Checkpoint | None:
    """The checkpoint in a run's folder; None when there is none. `repo` is as it was asked for.

    Raises:
        RunNotResumable: it cannot be read, or what it stands on is gone.
    """
    path = folder / CHECKPOINT
    if not path.is_file():
        return None
    found = _loads(path, repo)
    for place in filter(None, (found.base.bare, found.base.path)):
        if not place.is_dir():
            raise RunNotResumable(f"run {folder.name} cannot go on: {str(place)!r} is gone")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return replace(found, went_on=(*found.went_on, f"{now} after {_finished(found)}"))


def dumps(checkpoint: Checkpoint) -> str:
    """As JSON; without the repository's address, which may hold a password."""
    data = _adapter().dump_python(checkpoint, mode="json", exclude={"base": {"address"}})
    return json.dumps(data)


def _loads(path: Path, repo: str) -> Checkpoint:
    try:
        data = json.loads(path.read_text())
        version = data["version"]
        if version == VERSION:
            address = data["base"]["path"] or repo
            data["base"]["address"] = address
            return _adapter().validate_python(data)
    except (OSError, ValueError, TypeError, KeyError, ValidationError) as error:
        raise RunNotResumable(f"{path} cannot be read: {type(error).__name__}: {error}") from error
    raise RunNotResumable(
        f"{path} has form {version!r}, this Harness knows {VERSION}: go on with the Harness "
        "that began the run"
    )


def _finished(checkpoint: Checkpoint) -> str:
    count = len(checkpoint.results)
    return "1 finished node" if count == 1 else f"{count} finished nodes"


@cache
def _adapter() -> TypeAdapter[Checkpoint]:
    return TypeAdapter(Checkpoint)
