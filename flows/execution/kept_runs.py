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
from flows.execution.forge import read_pull_request
from flows.runs import checkpoint
from flows.runs.home import CHECKPOINT, KEPT
from flows.runs.run_record import RunRecord, read_record, run_lock
from sandbox.branches import push_address

_log = logging.getLogger(__name__)


def reopen(dependencies: RunDependencies, run_id: str) -> bool:
    """Let a run that is over be resumed if a comment asks for something; return True if so.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
        RunNotResumable: the run is executed by another process, or its files are damaged.
    """
    own = dependencies.runs / run_id
    if not (own / KEPT).is_file():
        return False
    with run_lock(dependencies.runs, run_id):
        if _commented(dependencies, run_id) is None:
            return False
        (own / KEPT).replace(own / CHECKPOINT)
        return True


def commented_runs(dependencies: RunDependencies) -> Iterator[RunRecord]:
    """Yield the runs that a comment can continue now. An error is logged, and holds up no other.

    Runs whose pull request is closed, or whose files are too old, are forgotten.
    """
    for path in sorted(dependencies.runs.glob(f"*/{KEPT}")):
        run_id = path.parent.name
        try:
            record = _commented(dependencies, run_id)
        except HarnessError as error:
            _log.warning("comments for run %s cannot be looked for: %s", run_id, error)
            continue
        if record is not None:
            yield record


def _commented(dependencies: RunDependencies, run_id: str) -> RunRecord | None:
    own = dependencies.runs / run_id
    record = read_record(own)
    now = checkpoint.read(own, record.repo, KEPT) if record else None
    if now is None or now.pull is None:
        return None
    remote = push_address(now.base)
    forge = dependencies.find_forge(remote) if remote else None
    if forge is None:
        return None
    kept_s = time.time() - (own / KEPT).stat().st_mtime
    if (
        kept_s > dependencies.snapshot_ttl_s
        or not read_pull_request(forge, now.pull.number).is_open
    ):
        (own / KEPT).unlink(missing_ok=True)
        dependencies.remove_snapshots(run_id, ())
        return None
    commented = takes_comments(forge, now) and find_comment(forge, now) is not None
    return record if commented or owes_reply(now) else None
