"""Checkpoint of a run: finished nodes and snapshot, from which another process can continue."""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from contracts.errors import RunNotResumable
from contracts.model_access import AgentUsage
from contracts.run import NodeResult, without_attempt
from contracts.sandbox import SnapshotId
from flows.runs.home import CHECKPOINT, KEPT, write_in_home
from nodes.agents.types import Conversation
from sandbox.repos import BaseCommit
from sandbox.workspace import WorkCommit

VERSION = 1
OUTPUT_MARK = "harness output"
"""Begins the hidden mark in what an agent has written on a forge."""
_AFTER_PUSH = " after the push"


class UsedBudget(NamedTuple):
    """What the agents of a run have used so far: US dollars, replies per model, tokens."""

    cost_usd: float = 0.0
    replies: Mapping[str, int] = MappingProxyType({})
    tokens: int = 0


class Asked(NamedTuple):
    """The comment that a round answers: its key, thread and link as `Comment` has them.

    marker      hidden text of the reply, a secret until it is written
    replied     the reply is written
    failed      the round failed, and the next one goes on without it
    """

    key: str
    thread: str
    link: str
    marker: str
    replied: bool = False
    failed: bool = False


class Round(NamedTuple):
    """What an agent was told about the pushed `commit`. It works like the node `node`, under a
    name of its own, and continues that node's conversation. `asked` is the comment behind it,
    `onto` the newer base commit that is merged before the agent works."""

    said: str
    node: str
    commit: str
    asked: Asked | None = None
    onto: str = ""


def round_name(number: int, of: str = "") -> str:
    """Return the name of a round's node, or the name that the node `of` has in this round."""
    return f"round {number}{f': {of}' if of else ''}{_AFTER_PUSH}"


def is_round(node: str) -> bool:
    """Return whether a node of this name belongs to a round."""
    return node.startswith("round ") and node.endswith(_AFTER_PUSH)


@dataclass(frozen=True, kw_only=True)
class PullProgress:
    """The pull request of a run.

    commit      the commit that was pushed last
    pushed_at   when, in seconds since 1970
    marker      hidden text of the comment with the report, a secret until it is written
    comment     number of that comment
    """

    page: str
    number: int
    commit: str
    pushed_at: float
    marker: str
    comment: int | None = None


@dataclass(frozen=True, kw_only=True)
class OutputProgress:
    """The state of one output: done if it has a `page`; `reason` tells what of it was refused.

    marker      hidden text of what is written, a secret until then
    at          when it was begun, in seconds since 1970
    """

    marker: str = ""
    at: float = 0.0
    page: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """State of a run that can be resumed. Stored as `checkpoint.json`.

    results     results by the name of the node, step or fix
    replies     number of replies used, by model
    talks       conversations of agents that have not finished, by node
    waiting     conversations that ended with a denial that a person may still lift, by node
    files       snapshot of the sandbox with these results; None while the files are as cloned
    forks       snapshots of the agents that compete, by name
    lost        branches with the work of agents that lost a competition
    ended       results after the last node; None while nodes remain
    work        the collected commit, once `ended` is set
    published   the commit that the branch in the user's repository points to
    spent_usd   money spent in nodes that will run again
    pull        the pull request that was opened
    outputs     what became of the outputs, by node and number
    rounds      rounds after the push, also the one that runs
    heard       bytes of the run's logs whose events are written
    went_on     one line per resume
    notices     lines for the report
    """

    version: int = VERSION
    base: BaseCommit
    results: Mapping[str, NodeResult] = field(default_factory=dict)
    replies: Mapping[str, int] = field(default_factory=dict)
    talks: Mapping[str, Conversation] = field(default_factory=dict)
    waiting: Mapping[str, Conversation] = field(default_factory=dict)
    files: SnapshotId | None = None
    forks: Mapping[str, SnapshotId] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    elapsed_ms: int = 0
    ended: Mapping[str, NodeResult] | None = None
    work: WorkCommit | None = None
    published: str | None = None
    spent_usd: float = 0.0
    pull: PullProgress | None = None
    outputs: Mapping[str, OutputProgress] = field(default_factory=dict)
    rounds: tuple[Round, ...] = ()
    heard: Mapping[str, int] = field(default_factory=dict)
    went_on: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def used(self) -> UsedBudget:
        """Budget used by these results and conversations, and by nodes that run again."""
        beside = {name: r for top in self.results.values() for name, r in top.lanes.items()}
        spent = [result.usage for result in {**beside, **self.results}.values()]
        spent += [talk.spent.usage for talk in self.talks.values()]
        replies = Counter(self.replies)
        for talk in self.talks.values():
            replies.update(talk.spent.answers)
        return UsedBudget(
            self.spent_usd + sum(usage.cost_usd for usage in spent),
            dict(replies),
            sum(usage.total for usage in spent),
        )

    @property
    def images(self) -> frozenset[SnapshotId]:
        """All snapshots that this checkpoint needs in the Docker engine."""
        return frozenset(filter(None, (self.files, *self.forks.values())))

    def again_from(self, finished: Collection[str], heard: Mapping[str, int]) -> "Checkpoint":
        """Return this checkpoint with only these nodes, fixes and steps finished.

        The others run again, in the same files.
        """
        kept = {name: r for name, r in self.results.items() if without_attempt(name) in finished}
        without = replace(self, results=kept, ended=None, work=None, heard=heard)
        return replace(without, spent_usd=self.used.cost_usd - without.used.cost_usd)

    def with_word_for(self, node: str, said: str) -> "Checkpoint":
        """Return this checkpoint with the node's saved conversation, continued with `said`.

        The agent gets its full limits again. Without a saved conversation it starts a new one.
        """
        talk = self.waiting.get(node)
        if talk is None:
            return self
        return replace(
            self, talks={node: replace(talk, told=said, spent=AgentUsage(), elapsed_s=0.0)}
        )


class StartPoint(NamedTuple):
    """Checkpoint that this process starts from; `resumed` if an earlier process began the run."""

    checkpoint: Checkpoint
    resumed: bool = False


def write_first(folder: Path, base: BaseCommit) -> Checkpoint:
    """Write and return the checkpoint of a new run."""
    start = Checkpoint(base=base)
    folder.mkdir(parents=True, exist_ok=True)
    write_in_home(folder / CHECKPOINT, dumps(start), run_id=folder.name)
    return start


def read(folder: Path, repo: str, name: str = CHECKPOINT) -> Checkpoint | None:
    """Read the checkpoint in a run's folder; None if there is none. `repo` is the request's.

    Raises:
        RunNotResumable: the file is damaged, or its repository is gone.
    """
    path = folder / name
    if not path.is_file():
        return None
    found = _loads(path, repo)
    for place in filter(None, (found.base.bare, found.base.path)):
        if not place.is_dir():
            raise RunNotResumable(f"run {folder.name} cannot be resumed: {str(place)!r} is gone")
    return found


def resume_checkpoint(kept: Checkpoint) -> Checkpoint:
    """Return the checkpoint with a line that says when the run was resumed."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return replace(kept, went_on=(*kept.went_on, f"{now} after {_finished(kept)}"))


def written_at(folder: Path) -> datetime:
    """Return when the checkpoint in a run's folder was last written."""
    return datetime.fromtimestamp((folder / CHECKPOINT).stat().st_mtime, UTC)


def bases_needed(runs: Path) -> set[str]:
    """Return the base commits of all runs that can still go on."""
    needed = set()
    for path in (*runs.glob(f"*/{CHECKPOINT}"), *runs.glob(f"*/{KEPT}")):
        with suppress(
            OSError, ValueError, TypeError, KeyError
        ):  # a damaged checkpoint cannot be resumed
            needed.add(json.loads(path.read_text())["base"]["commit"])
    return needed


def dumps(checkpoint: Checkpoint) -> str:
    """Return JSON without the repository's address, which may contain a password."""
    data = adapter().dump_python(checkpoint, mode="json", exclude={"base": {"address"}})
    return json.dumps(data)


def _loads(path: Path, repo: str) -> Checkpoint:
    try:
        data = json.loads(path.read_text())
        version = data["version"]
        if version == VERSION:
            address = data["base"]["path"] or repo
            data["base"]["address"] = address
            return adapter().validate_python(data)
    except (OSError, ValueError, TypeError, KeyError, ValidationError) as error:
        raise RunNotResumable(f"{path} cannot be read: {type(error).__name__}: {error}") from error
    raise RunNotResumable(
        f"{path} has version {version!r}, this Harness reads {VERSION}: resume the run with the "
        "Harness that started it"
    )


def _finished(checkpoint: Checkpoint) -> str:
    count = len(checkpoint.results)
    return "1 finished node" if count == 1 else f"{count} finished nodes"


@cache
def adapter() -> TypeAdapter[Checkpoint]:
    """Return the converter to and from JSON. Cached: building it takes 20 ms."""
    return TypeAdapter(Checkpoint)
