"""What a run has done so far, written down so that another process can go on from it."""

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
from flows.runs.home import write_in_home
from flows.runs.layout import CHECKPOINT
from nodes.agents.types import Conversation
from sandbox.repos import BaseCommit
from sandbox.workspace import WorkCommit

VERSION = 1


class UsedBudget(NamedTuple):
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
    `notices` are of what is in none of these branches.
    `spent_usd` was spent in nodes that are done again, `heard` is how much of the run's own logs
    tells of them.
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
    heard: Mapping[str, int] = field(default_factory=dict)
    went_on: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def used(self) -> UsedBudget:
        """What agents have used in the results and conversations that are kept."""
        beside = {name: r for top in self.results.values() for name, r in top.lanes.items()}
        spent = [result.usage for result in {**beside, **self.results}.values()]
        spent += [talk.spent.usage for talk in self.talks.values()]
        replies = Counter(self.replies)
        for talk in self.talks.values():
            replies[talk.model] += talk.spent.turns
        return UsedBudget(self.spent_usd + sum(usage.cost_usd for usage in spent), dict(replies))

    @property
    def images(self) -> frozenset[SnapshotId]:
        """All that this stands on in the Docker engine."""
        return frozenset(filter(None, (self.files, *self.forks.values())))

    def again_from(self, finished: Collection[str], heard: Mapping[str, int]) -> "Checkpoint":
        """The same files, to go on after these nodes, fixes and steps: what else was done is done
        again in them."""
        kept = {name: r for name, r in self.results.items() if without_attempt(name) in finished}
        without = replace(self, results=kept, ended=None, work=None, heard=heard)
        return replace(without, spent_usd=self.used.cost_usd - without.used.cost_usd)

    def with_word_for(self, node: str, said: str) -> "Checkpoint":
        """The same, where the agent of this node goes on with its conversation, told this first.

        Its limits begin anew. Where nothing is kept of it, it begins another conversation.
        """
        talk = self.waiting.get(node)
        if talk is None:
            return self
        return replace(
            self, talks={node: replace(talk, told=said, spent=AgentUsage(), elapsed_s=0.0)}
        )


class StartPoint(NamedTuple):
    """Where this process takes up a run; `resumed` when an earlier one began it."""

    checkpoint: Checkpoint
    resumed: bool = False


def write_first(folder: Path, base: BaseCommit) -> Checkpoint:
    """The checkpoint of a run that has done nothing yet, written down."""
    start = Checkpoint(base=base)
    folder.mkdir(parents=True, exist_ok=True)
    write_in_home(folder / CHECKPOINT, dumps(start), run_id=folder.name)
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
    return found


def resume_checkpoint(kept: Checkpoint) -> Checkpoint:
    """The checkpoint of a run that goes on now, and says so."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return replace(kept, went_on=(*kept.went_on, f"{now} after {_finished(kept)}"))


def written_at(folder: Path) -> datetime:
    """When the checkpoint in a run's folder was written last."""
    return datetime.fromtimestamp((folder / CHECKPOINT).stat().st_mtime, UTC)


def bases_needed(runs: Path) -> set[str]:
    """The commits that all runs began at which may still go on."""
    needed = set()
    for path in runs.glob(f"*/{CHECKPOINT}"):
        with suppress(OSError, ValueError, TypeError, KeyError):  # then it does not go on
            needed.add(json.loads(path.read_text())["base"]["commit"])
    return needed


def dumps(checkpoint: Checkpoint) -> str:
    """As JSON; without the repository's address, which may hold a password."""
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
        f"{path} has form {version!r}, this Harness knows {VERSION}: go on with the Harness "
        "that began the run"
    )


def _finished(checkpoint: Checkpoint) -> str:
    count = len(checkpoint.results)
    return "1 finished node" if count == 1 else f"{count} finished nodes"


@cache
def adapter() -> TypeAdapter[Checkpoint]:
    """To JSON and back; made once, which takes 20 ms."""
    return TypeAdapter(Checkpoint)
