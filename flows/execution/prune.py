"""Removes old refs and git LFS files from Harness's bare repositories.

The refs are branches of agents that lost a competition, and base commits of runs.
"""

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from flows.config.settings import Settings
from flows.runs.checkpoint import bases_needed
from flows.runs.runs import try_read_record
from sandbox.branches import Branch, collect_garbage, list_branches, remove_branch
from sandbox.lfs import remove_lfs_files
from sandbox.repos import remove_base, unused_bases


class PrunedBranch(NamedTuple):
    """A branch that was removed from this bare repository, or would be with `--dry-run`.

    Without a run it is the ref of a base commit.
    """

    run_id: str | None
    branch: str
    repository: Path


def prune(
    settings: Settings, before: datetime, *, dry_run: bool = False
) -> tuple[PrunedBranch, ...]:
    """Remove refs last used before this moment, and free their disk space.

    Kept: the branch of each run's work, branches of unknown runs, and the base commits of runs that
    can be resumed.
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
            remove_lfs_files(bare, before)
    return tuple(found)


def _lost(runs: Path, branch: Branch) -> str | None:
    """Return the run in which this branch's agent lost; None for any other branch."""
    _, run_id, name = branch.name.split("/", maxsplit=2)
    record = try_read_record(runs / run_id)
    return run_id if record is not None and name.startswith(f"{record.name}.") else None
