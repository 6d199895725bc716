"""The workspace of a plan: a sandbox that is opened when the first step needs it."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from contracts.errors import RepoInvalid, Unavailable
from contracts.files import existing_path
from contracts.model_access import GuardBounds
from contracts.sandbox import Sandbox, SnapshotId
from flows.execution.dependencies import OpenedSandbox
from flows.execution.work_check import refused_changes
from flows.runs.checkpoints import SnapshotTracker
from policy.errors import OperationFailed
from sandbox.branches import publish_branch, push_branch
from sandbox.repos import BaseCommit, fetch_base
from sandbox.workspace import clone_into_sandbox, collect_work

MAX_FILES = 5_000
MAX_BYTES = 64 * 1024 * 1024

RENEW_AFTER = timedelta(hours=1)
"""Renew a snapshot only if it is older than this."""

_log = logging.getLogger(__name__)

OpenSandbox = Callable[[SnapshotId | None], AbstractContextManager[OpenedSandbox]]
"""Opens a sandbox, from a snapshot if one is given; the sandbox is removed with the block."""


class PlanSnapshot(NamedTuple):
    """A snapshot of the workspace and its base commit (None for a folder); `at` is its time."""

    files: SnapshotId
    base: str | None
    at: datetime


class PlanWorkspace:
    """The files that a plan works on: a git repository, or any folder.

    Several threads may use it. It starts from the `snapshot` of an earlier process, if there is
    one. New snapshots are kept for `ttl_s`.
    """

    def __init__(
        self,
        repo: str,
        open_sandbox: OpenSandbox,
        *,
        branch: str,
        store: Path,
        snapshot: PlanSnapshot | None,
        ttl_s: float,
    ) -> None:
        self._repo = repo
        self._open_sandbox = open_sandbox
        self._branch = branch
        self._store = store
        self._snapshot = snapshot
        self._ttl_s = ttl_s
        self._files: SnapshotTracker | None = None
        self._stack = ExitStack()
        self._opened: OpenedSandbox | None = None
        self._base: BaseCommit | None = None
        self._lock = Lock()

    def close(self) -> None:
        """Remove the sandbox."""
        self._stack.close()

    def sandbox(self) -> Sandbox:
        """Return the sandbox with the files in it; open it at the first call.

        Raises:
            RepoInvalid: there is no such folder, or it is too large.
            Unavailable: no sandbox can be started.
        """
        return self._open().sandbox

    def env(self) -> Mapping[str, str]:
        """Return the environment variables that commands need for network access."""
        return self._open().env

    def save(self) -> PlanSnapshot | None:
        """Save a snapshot for a later process and return it; None if nothing has changed.

        Raises:
            SandboxLost: the sandbox is gone.
        """
        with self._lock:
            files = self._files.save() if self._files else None
            if files is None or (self._snapshot is not None and self._snapshot.files == files):
                return None
            self._snapshot = PlanSnapshot(files, self._base_commit(), datetime.now(UTC))
            return self._snapshot

    def renew(self) -> PlanSnapshot | None:
        """Like `save`, but also renews an unchanged snapshot older than `RENEW_AFTER` for `ttl_s`.

        If the sandbox cannot be opened, a warning is logged and the old snapshot stays.

        Raises:
            SandboxLost: as `save`.
        """
        saved, last = self.save(), self._snapshot
        if saved is not None or last is None or datetime.now(UTC) - last.at < RENEW_AFTER:
            return saved
        try:
            self._open()
            self._mark_changed()
            return self.save()
        except Unavailable as error:
            _log.warning("the snapshot of %s was not renewed: %s", self._branch, error)
            return None

    def push(self, remote: str, branch: str, bounds: GuardBounds | None) -> str:
        """Push the work as this branch and return its commit.

        `bounds` name the protected files and which of them may change; None: all may change.

        Raises:
            OperationFailed: not a git repository, another remote than origin, nothing to push, or a
                change of a protected file that no `--allow-change` permits.
            GitFailed: git refused.
        """
        if not _is_git(self._repo) or remote != "origin":
            raise OperationFailed(f"{self._repo!r} has no remote {remote!r}: only origin is pushed")
        base = self._base_of()
        work = collect_work(self.sandbox(), base, branch, message="harness: uncommitted changes")
        if work is None:
            raise OperationFailed("there is nothing to push: nothing changed")
        if bounds is not None and (why := refused_changes(work, base, bounds)):
            raise OperationFailed(f"{why}, or push the work yourself")
        publish_branch(base, work.branch, work.commit)
        push_branch(base, work.branch)
        return work.commit

    def _open(self) -> OpenedSandbox:
        with self._lock:
            if self._opened is None:
                files = self._snapshot.files if self._snapshot else None
                opened = self._stack.enter_context(self._open_sandbox(files))
                if files is None:
                    self._fill(opened.sandbox)
                self._files = SnapshotTracker(opened.sandbox, files, self._ttl_s)
                self._opened = opened
                if files is None:
                    self._mark_changed()  # save the input too: the user may change the original
            return self._opened

    def _mark_changed(self) -> None:
        if self._files is not None:
            self._files.discard()

    def _fill(self, sandbox: Sandbox) -> None:
        if _is_git(self._repo):
            clone_into_sandbox(sandbox, self._base_of(), self._branch)
        else:
            sandbox.upload_files(dict(_files(Path(self._repo))))

    def _base_of(self) -> BaseCommit:
        if self._base is None:
            self._base = fetch_base(self._repo, self._base_commit(), store=self._store)
        return self._base

    def _base_commit(self) -> str | None:
        """Return the commit that the files started from; None for a folder or if not yet known."""
        if self._snapshot is not None:
            return self._snapshot.base
        return self._base.commit if self._base else None


def check_workspace(repo: str) -> None:
    """Check that the repository or folder of a plan exists.

    Raises:
        RepoInvalid: it is neither a repository URL nor an existing folder.
    """
    path = existing_path(repo)
    if "://" not in repo and "@" not in repo and not (path and path.is_dir()):
        raise RepoInvalid(
            f"{repo[:200]!r} is no folder: name a folder, a git repository or its URL"
        )


def _is_git(repo: str) -> bool:
    return not Path(repo).is_dir() or (Path(repo) / ".git").exists()


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Give every regular file. Symbolic links are skipped: they could point outside the folder."""
    left, count = MAX_BYTES, 0
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        count, left = count + 1, left - path.stat().st_size
        if count > MAX_FILES or left < 0:
            raise RepoInvalid(
                f"{str(folder)!r} holds more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB: "
                "name a smaller folder, or make it a git repository"
            )
        yield path.relative_to(folder).as_posix(), path.read_bytes()
