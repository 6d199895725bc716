"""What is kept in the repositories of ours until it is pruned.

That is what agents made that competed and did not win, and the commits that runs began at.
"""

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from flows.config.settings import Settings
from flows.runs.checkpoint import bases_needed
from flows.runs.runs import try_read_record
from sandbox.branches import Branch, collect_garbage, list_branches, remove_branch
from sandbox.repos import remove_base, unused_bases


class PrunedBranch(NamedTuple):
    """A branch that was removed, or would be, from this bare repository.

    Without a run it is the ref of a commit that runs began at.
    """

    run_id: str | None
    branch: str
    repository: Path


def prune(
    settings: Settings, before: datetime, *, dry_run: bool = False
) -> tuple[PrunedBranch, ...]:
    """Remove what was last used before this moment and is needed by none, and its room.

    That is the branches that lost, never the one of a run's work or of a run nobody knows any
    more, and the commits that runs began at, unless a run may still go on from there.
    """
    found = []
    needed = bases_needed(settings.runs)
    for bare in sorted(settings.repos.glob("*.git")):
        for branch in list_branches(bare, "harness/"):
            run_id = _lost(settings.runs, branch)
            if run_id is not None and branch.committed_at < before:
                found.append(PrunedBranch(run_id, branch.name, bare))
                if not dry_run:
                    remove_branch(bare, branch.name)
        for commit in unused_bases(bare, before):
            if commit not in needed:
                found.append(PrunedBranch(None, f"refs/harness/base/{commit}", bare))
                if not dry_run:
                    remove_base(bare, commit)
        if not dry_run:
            collect_garbage(bare)
    return tuple(found)


def _lost(runs: Path, branch: Branch) -> str | None:
    """The run in which this branch's agent did not win; None of any other branch."""
    _, run_id, name = branch.name.split("/", maxsplit=2)
    asked = try_read_record(runs / run_id)
    return run_id if asked is not None and name.startswith(f"{asked.name}.") else None
