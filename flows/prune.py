"""What agents made that competed and did not win: kept as branches of ours until it is pruned."""

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from flows.asked import read_asked
from flows.settings import Settings
from sandbox.branches import Branch, branches, collect_garbage, remove_branch


class Pruned(NamedTuple):
    """A branch that was removed, or would be, from this bare repository."""

    run_id: str
    branch: str
    repository: Path


def prune(settings: Settings, before: datetime, *, dry_run: bool = False) -> tuple[Pruned, ...]:
    """Remove the branches that lost and were last added to before this moment, and their room.

    The branch of a run's work is never one of them, nor that of a run nobody knows any more.
    """
    found = []
    for bare in sorted(settings.repos.glob("*.git")):
        for branch in branches(bare, "harness/"):
            run_id = _lost(settings.runs, branch)
            if run_id is not None and branch.changed < before:
                found.append(Pruned(run_id, branch.name, bare))
                if not dry_run:
                    remove_branch(bare, branch.name)
        if not dry_run:
            collect_garbage(bare)
    return tuple(found)


def _lost(runs: Path, branch: Branch) -> str | None:
    """The run in which this branch's agent did not win; None of any other branch."""
    _, run_id, name = branch.name.split("/", maxsplit=2)
    asked = read_asked(runs / run_id)
    return run_id if asked is not None and name.startswith(f"{asked.blueprint}.") else None
