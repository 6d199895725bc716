"""What a run has done so far, kept so that another process can go on where it stopped."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Thread
from time import monotonic, sleep, time
from types import MappingProxyType
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from blueprints.engine import Perform
from contracts.errors import RunNotResumable, SandboxLost
from contracts.run import NodeResult
from contracts.sandbox import LastingSandbox, SnapshotId
from flows.asked import write_whole
from flows.runs import CHECKPOINT
from nodes.types import Agentic, Node, inner
from sandbox.repos import Base
from sandbox.workspace import Work

VERSION = 1

_TICK_S = 0.02
"""More than the kernel's clock for change times takes to move on."""


class Used(NamedTuple):
    """What the agents of a run have used so far: money, and replies of each model."""

    cost_usd: float = 0.0
    replies: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A run that can go on.

    `results` are by the name under which a node, step or fix was performed. `files` are the
    sandbox's after the last of them; None means as they were put in. `ended` are the context's
    results once the nodes came to their end, and `work` is then what they made of the
    repository; `published` is the commit that the user's branch shows.
    """

    version: int = VERSION
    base: Base
    results: Mapping[str, NodeResult] = field(default_factory=dict)
    replies: Mapping[str, int] = field(default_factory=dict)
    files: SnapshotId | None = None
    elapsed_ms: int = 0
    ended: Mapping[str, NodeResult] | None = None
    work: Work | None = None
    published: str | None = None
    went_on: tuple[str, ...] = ()

    @property
    def used(self) -> Used:
        """What agents have used in the results that are kept."""
        results = [r for top in self.results.values() for r in (top, *top.lanes.values())]
        return Used(sum(result.usage.cost_usd for result in results), self.replies)


class Checkpoints:
    """The checkpoint of one run, renewed after each node, step and fix.

    `forget` removes what is kept of the run's files but for the one it is given.
    """

    def __init__(
        self,
        folder: Path,
        start: Checkpoint,
        *,
        ttl_s: float,
        forget: Callable[[SnapshotId | None], None],
    ) -> None:
        self.now = start
        self._path = folder / CHECKPOINT
        self._ttl_s = ttl_s
        self._forget = forget
        self._sandbox: LastingSandbox | None = None
        self._clean_at = 0.0
        self._drift = 0.0
        self._began = monotonic() - start.elapsed_ms / 1000

    @property
    def elapsed_ms(self) -> int:
        """How long the run has taken, without the time in which it was stopped."""
        return round((monotonic() - self._began) * 1000)

    def prepare(self, sandbox: LastingSandbox) -> None:
        """Let the sandbox find out where commands can write, while other things are done."""

        def look() -> None:
            with suppress(SandboxLost):  # whoever works in it will tell
                sandbox.changed_since(time())

        Thread(target=look, name="checkpoints", daemon=True).start()

    def follow(self, sandbox: LastingSandbox) -> None:
        """From here on keep this sandbox's files; they are as the checkpoint has them."""
        sleep(_TICK_S)
        self._sandbox = sandbox
        self._clean()

    def perform(self, perform: Perform, model: str) -> Perform:
        """The same `perform`, which never performs again what is finished.

        `model` is whom agents ask whose node names none. A result is kept before anybody
        learns of it.
        """

        def perform_once(node: Node, execute: Callable[[], NodeResult]) -> NodeResult:
            def kept() -> NodeResult:
                return self._keep(node, execute(), model)

            known = self.now.results.get(node.name)
            return known if known is not None else perform(node, kept)

        return perform_once

    def save(self, now: Checkpoint) -> None:
        """Write this down as the newest state; a reader sees the old one or the new one."""
        self.now = replace(now, elapsed_ms=self.elapsed_ms)
        write_whole(self._path, dumps(self.now))

    def drop(self) -> None:
        """The run is over: nobody goes on from here."""
        self._path.unlink(missing_ok=True)
        if self.now.files is not None or self.now.went_on:
            self._forget(None)

    def _keep(self, node: Node, result: NodeResult, model: str) -> NodeResult:
        results = {**self.now.results, node.name: result}
        replies = Counter(self.now.replies) + _replies(node, result, model)
        before = self.now.files
        files = self._files()
        self.save(replace(self.now, results=results, replies=dict(replies), files=files))
        if before is not None and before != files:
            self._forget(files)
        return result

    def _files(self) -> SnapshotId | None:
        if self._sandbox is None or not self._touched(self._sandbox):
            return self.now.files
        files = self._sandbox.checkpoint(self._ttl_s)
        self._clean()
        return files

    def _touched(self, sandbox: LastingSandbox) -> bool:
        set_back = time() - monotonic() < self._drift - _TICK_S / 2
        return set_back or sandbox.changed_since(self._clean_at)

    def _clean(self) -> None:
        """Nothing is changing now: whatever does, does so later than this."""
        self._clean_at = time() - _TICK_S / 2
        self._drift = time() - monotonic()


def _replies(node: Node, result: NodeResult, model: str) -> Counter[str]:
    """How many replies of each model a node took; a fix is counted when it is performed."""
    turns = {node.name: result.turns} | {n: lane.turns for n, lane in result.lanes.items()}
    asked: Counter[str] = Counter()
    for found in (node, *inner(node)):
        if isinstance(found, Agentic):
            asked[found.model or model] += turns.get(found.name, 0)
    return asked


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
