"""Runs that are over and wait, without a process, for comments on their pull request.

Such a run keeps its checkpoint aside and its files as long as those of a stopped run. A comment
brings the checkpoint back; then the run is resumed like any other.
"""

import logging
import time
from collections.abc import Iterator

from contracts.errors import HarnessError
from flows.execution.answers import find_comment, owes_reply, takes_comments
from flows.execution.dependencies import RunDependencies
from flows.forge.pulls import read_pull_request
from flows.runs import checkpoint
from flows.runs.home import CHECKPOINT, KEPT
from flows.runs.run_record import read_record, run_lock
from sandbox.branches import push_address

_log = logging.getLogger(__name__)


def reopen(dependencies: RunDependencies, run_id: str) -> bool:
    """Let a run that is over be resumed if a comment asks for something; return True if so.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
        RunNotResumable: the run is executed by another process, or its files are damaged.
    """
    kept = dependencies.runs / run_id / KEPT
    if not kept.is_file():
        return False
    with run_lock(dependencies.runs, run_id):
        if not kept.is_file():  # another process continued the run before this one had the lock
            return False
        if _has_expired(dependencies, run_id) or not _commented(dependencies, run_id):
            return False
        kept.replace(kept.with_name(CHECKPOINT))
        return True


def commented_runs(dependencies: RunDependencies) -> Iterator[tuple[str, str]]:
    """Yield run and flow run of each run that a worker can continue now because of a comment.

    Runs whose pull request is closed, or whose files are too old, are forgotten. An error is
    logged, and holds up no other run.
    """
    for path in sorted(dependencies.runs.glob(f"*/{KEPT}")):
        run_id = path.parent.name
        try:
            if _has_expired(dependencies, run_id):
                continue
            record = read_record(path.parent)
            flow_run = record.flow_run_id if record and record.suspends else None
            if flow_run and _commented(dependencies, run_id):
                yield run_id, flow_run
        except FileNotFoundError:  # another process continues the run just now
            continue
        except HarnessError as error:
            _log.warning("comments for run %s cannot be looked for: %s", run_id, error)


def _commented(dependencies: RunDependencies, run_id: str) -> bool:
    own = dependencies.runs / run_id
    record = read_record(own)
    now = checkpoint.read(own, record.repo, KEPT) if record else None
    if now is None or now.pull is None:
        return False
    remote = push_address(now.base)
    forge = dependencies.find_forge(remote) if remote else None
    if forge is None:
        return False
    if not read_pull_request(forge, now.pull.number).is_open:
        _forget(dependencies, run_id)
        return False
    commented = takes_comments(forge, now) and find_comment(forge, now) is not None
    return commented or owes_reply(now)


def _has_expired(dependencies: RunDependencies, run_id: str) -> bool:
    """Forget the run if its files are removed by now, or soon will be; return whether it was."""
    kept_s = time.time() - (dependencies.runs / run_id / KEPT).stat().st_mtime
    if kept_s <= dependencies.snapshot_ttl_s:
        return False
    _forget(dependencies, run_id)
    return True


def _forget(dependencies: RunDependencies, run_id: str) -> None:
    (dependencies.runs / run_id / KEPT).unlink(missing_ok=True)
    dependencies.remove_snapshots(run_id, ())
