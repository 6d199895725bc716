"""The workspace of a sandbox: the base commit goes in as a bundle, the work comes out as one.

The workspace belongs to the agent, `.git` included. Git runs on it inside the sandbox only; the
host reads nothing but the bytes of a bundle, and verifies them first.
"""

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from os import fsdecode
from pathlib import Path
from tempfile import TemporaryDirectory

from contracts.errors import GitFailed, WorkRefused
from contracts.false_changes import falsely_modified
from contracts.run import DiffStat
from contracts.sandbox import (
    DEFAULT_AUTHOR,
    DEFAULT_OUTPUT_LIMIT,
    EXCLUDES,
    Command,
    ExecResult,
    Sandbox,
    Stream,
)
from sandbox.bundles import bundle_base, unbundle_work
from sandbox.diffs import diff, diff_stat
from sandbox.git import TIMEOUT_S, branch_ref, error_text, our_repository
from sandbox.lfs import LFS_FILTER, put_lfs_files
from sandbox.repos import BaseCommit, Submodule

WORK_LIMIT = 512 * 1024 * 1024
"""Bytes of the bundle with the work."""
LIST_LIMIT = 128 * 1024 * 1024
"""Bytes of a listing of files."""
JUNK = (
    "__pycache__/", "*.pyc", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", "*.egg-info/",
    ".venv/", "node_modules/", ".tox/", ".nox/", ".hypothesis/", ".coverage",
)  # fmt: skip
"""Files that running tests leaves behind, excluded from the work by `.git/info/exclude`."""

_ALTERNATES = ".git/objects/info/alternates"
_BUNDLE = ".git/harness.bundle"
_CLEAR = (
    "git -c core.fsmonitor=false ls-files -z >/tmp/harness-tracked"
    " && xargs -0 rm -rf -- </tmp/harness-tracked && rm /tmp/harness-tracked"
    " && find .git -mindepth 1 -maxdepth 1 -not -name 'harness-*' -exec rm -rf {} +"
)
_NAMED_PATHS = 5
"""Paths that a notice names; it counts the others."""
# The agent owns the configuration: no hook of it may run in the commit, and no setting of it may
# give the commit other bytes than the files that were tested.
_GIT = (
    "git", "--no-replace-objects",
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
    "-c", "core.sparseCheckout=false", "-c", "core.untrackedCache=false",
    "-c", "core.fileMode=true", "-c", "core.symlinks=true", "-c", "core.ignoreCase=false",
    "-c", "core.trustctime=true", "-c", "core.checkStat=default", "-c", "core.ignoreStat=false",
    "-c", "core.attributesFile=/dev/null", "-c", "core.autocrlf=false", "-c", "core.eol=lf",
    "-c", "commit.gpgSign=false",
    "-c", f"user.name={DEFAULT_AUTHOR.name}", "-c", f"user.email={DEFAULT_AUTHOR.email}",
    "--git-dir=.git", "--work-tree=.",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class WorkCommit:
    """The commit that a run made, verified and stored in the bare repository.

    `notices` tell of files that are not in it and of rewritten history.
    """

    commit: str
    branch: str
    diff_stat: DiffStat
    diff: str
    notices: tuple[str, ...] = ()


def clear_repository(sandbox: Sandbox) -> None:
    """Remove the repository of an earlier run: its tracked files, and `.git` except `harness-*`.

    What an install laid down beside them stays. No setting and no hook of before is left.

    Raises:
        GitFailed: a command inside failed.
        SandboxLost: the sandbox is gone.
    """
    _check(sandbox.exec(Command(argv=("sh", "-c", _CLEAR), timeout_s=TIMEOUT_S)), "clearing")


def clone_into_sandbox(sandbox: Sandbox, base: BaseCommit, branch: str) -> None:
    """Clone the base commit into the sandbox's workspace, with `branch` checked out.

    The workspace is empty, or was cleared: files where the commit has some are replaced.

    The tags of its history come along, so that `git describe` prints the same as on the host. The
    clone has no remote, and its author is DEFAULT_AUTHOR. The ref `origin/HEAD` is the merge base
    with the main branch, so that a review knows its range.

    Raises:
        GitFailed: a git command inside failed; the message ends with git's error.
        SandboxLost: the sandbox is gone.
    """
    branch_ref(branch)
    _put_objects(sandbox, base, ".")
    _git(sandbox, "config", "core.excludesFile", f"{sandbox.work_dir}/{EXCLUDES}")
    _git(sandbox, "config", "user.name", DEFAULT_AUTHOR.name)
    _git(sandbox, "config", "user.email", DEFAULT_AUTHOR.email)
    if base.lfs:
        put_lfs_files(sandbox, base.lfs)
        for step in ("clean", "smudge"):
            _git(sandbox, "config", f"filter.lfs.{step}", f"{LFS_FILTER} {step}")
    _git(sandbox, "checkout", "--quiet", "--force", "-b", branch, base.commit)
    if base.forked_at is not None:
        _git(sandbox, "update-ref", "refs/remotes/origin/HEAD", base.forked_at)
    for submodule in base.submodules:  # outer ones first: inner ones lie in their directories
        _put_objects(sandbox, submodule, submodule.path)
        _git(sandbox, "checkout", "--quiet", "--force", submodule.commit, cwd=submodule.path)


def _put_objects(sandbox: Sandbox, source: BaseCommit | Submodule, folder: str) -> None:
    """Make a repository in a folder of the workspace, with a commit, its history and its tags."""
    _git(sandbox, "init", "--quiet", "--template=", "--initial-branch=harness-start", cwd=folder)
    bundle = f"{folder}/{_BUNDLE}"
    with bundle_base(source) as packed:
        sandbox.write_file(bundle, packed.bundle)
    if (shallow := source.bare / "shallow").exists():
        sandbox.write_file(f"{folder}/.git/shallow", shallow.read_bytes())
    sandbox.write_file(f"{folder}/.git/info/exclude", "\n".join((*JUNK, "")).encode())
    fetch = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", _BUNDLE, source.ref)
    _git(sandbox, *fetch, cwd=folder)
    sandbox.write_file(f"{folder}/.git/packed-refs", packed.tags)
    _check(_remove(sandbox, bundle), "rm")


def merge_into_sandbox(sandbox: Sandbox, base: BaseCommit) -> tuple[str, ...]:
    """Merge a newer base commit into the workspace without a commit; return paths that conflict.

    The conflicts stay in these files, with markers.

    Raises:
        GitFailed: git cannot merge it, for example because the workspace is changed.
        SandboxLost: the sandbox is gone.
    """
    with bundle_base(base) as packed:
        sandbox.write_file(_BUNDLE, packed.bundle)
    _git(sandbox, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", _BUNDLE, base.ref)
    _check(_remove(sandbox, _BUNDLE), "rm")
    if base.lfs:
        put_lfs_files(sandbox, base.lfs)
    merged = _try_git(sandbox, "merge", "--quiet", "--no-commit", "--no-ff", base.commit)
    unmerged = ("diff", "--name-only", "--diff-filter=U", "-z")
    paths = _git(sandbox, *unmerged, output_limit=LIST_LIMIT).stdout.split(b"\0")
    found = tuple(path.decode("utf-8", "replace") for path in paths if path)
    if not found:
        _check(merged, "git merge")
    return found


def collect_work(
    sandbox: Sandbox, base: BaseCommit, branch: str, *, message: str
) -> WorkCommit | None:
    """Commit all changes in the workspace and store HEAD in the bare repository as `branch`.

    The name of the branch inside does not matter. Return None if nothing changed.

    Raises:
        WorkRefused: the workspace has no repository, git could add no file, or the bundle is
            corrupt, too large, forged or cannot be compared with the base.
        SandboxLost: the sandbox is gone.
    """
    try:
        # A killed git leaves its lock, and each later git command would refuse to run. With
        # attributes in .git, the commit could hold other bytes than the files that were tested.
        _remove(sandbox, ".git/index.lock", ".git/HEAD.lock", ".git/info/attributes")
        pretended = _drop_false_history(sandbox, base)
        _git(sandbox, "rev-parse", "--git-dir")
        absent = reset_index(sandbox)
        not_added = _commit_all(sandbox, message)
        with TemporaryDirectory(prefix="harness-") as folder:
            bundle = _bundle(sandbox, base, Path(folder) / "work.bundle")
            if bundle is None and not_added:
                raise WorkRefused(not_added[0])
            if bundle is None:
                return None
            commit = unbundle_work(bundle, base, branch)
        return WorkCommit(
            commit=commit,
            branch=branch,
            diff_stat=diff_stat(base, commit),
            diff=diff(base, commit),
            notices=(
                *pretended,
                *not_added,
                *absent,
                *ignored_files_notice(sandbox),
                *_commit_notices(base, commit),
                *_submodule_notices(sandbox, base),
            ),
        )
    except GitFailed as error:
        raise WorkRefused(f"the work cannot be taken out: {error}") from error


def _drop_false_history(sandbox: Sandbox, base: BaseCommit) -> tuple[str, ...]:
    """Remove what makes git see other parents than the commits have; return a notice if there was.

    Replaced objects need no removal: all commands here ignore them. Objects in another store are
    part of the work, and come out.
    """
    replaced = _try_git(sandbox, "for-each-ref", "--count=1", "refs/replace").stdout
    files = [".git/info/grafts"]
    if not (base.bare / "shallow").exists():
        files.append(".git/shallow")
    listed = sandbox.exec(Command(argv=("ls", *files, _ALTERNATES), timeout_s=TIMEOUT_S)).stdout
    notices = []
    if replaced or listed.decode().strip() not in ("", _ALTERNATES):
        _remove(sandbox, *files)
        notices.append(
            "replaced objects, grafts and cut history of the repository inside were ignored"
        )
    if _ALTERNATES.encode() in listed:
        notices.append(
            "the repository inside reads objects from another store (alternates): those of the "
            "work came out with it"
        )
    return tuple(notices)


def _commit_all(sandbox: Sandbox, message: str) -> tuple[str, ...]:
    """Commit every change in the workspace; return a notice if git could not add all files."""
    unchanged = falsely_modified(partial(_git_listing, sandbox))
    added = _try_git(sandbox, "add", "--all", "--ignore-errors")
    if unchanged:
        _git(sandbox, "update-index", "-z", "--index-info", stdin=b"".join(unchanged.values()))
    merges = _try_git(sandbox, "rev-parse", "--quiet", "--verify", "MERGE_HEAD").ok
    if merges or not _try_git(sandbox, "diff", "--cached", "--quiet").ok:
        commit = ("commit", "--quiet", "--no-verify", "--allow-empty-message")
        text = message.replace("\0", "").encode(errors="replace")
        _git(sandbox, *commit, "--file=-", stdin=text)
    return () if added.ok else (f"not all is in the branch: {error_text(added.stderr)}",)


def _git_listing(sandbox: Sandbox, args: tuple[str, ...], stdin: bytes) -> ExecResult:
    return _try_git(sandbox, *args, stdin=stdin, output_limit=LIST_LIMIT)


def _bundle(sandbox: Sandbox, base: BaseCommit, to: Path) -> Path | None:
    """Write a bundle of the commits that HEAD has over the base; None if HEAD is the base."""
    span = (f"^{base.commit}", "HEAD")
    if _git(sandbox, "rev-list", "--count", *span).stdout.strip() == b"0":
        head = _git(sandbox, "rev-parse", "HEAD").stdout.decode().strip()
        if head == base.commit:
            return None
        raise WorkRefused(f"HEAD went back to before {base.commit[:7]} and nothing stands on it")
    argv = (*_GIT, "bundle", "create", "--quiet", "-", *span)
    with to.open("wb") as file:

        def take(stream: Stream, data: bytes) -> None:
            if stream == "stdout" and file.tell() + len(data) <= WORK_LIMIT:
                file.write(data)

        packed = _check(sandbox.exec(Command(argv=argv, timeout_s=TIMEOUT_S), take), "git bundle")
    if packed.stdout_size > WORK_LIMIT:
        raise WorkRefused(
            f"the work is {packed.stdout_size} bytes packed, over the limit of {WORK_LIMIT}"
        )
    return to


def _commit_notices(base: BaseCommit, commit: str) -> Iterator[str]:
    """Report rewritten history, and repositories inside the repository."""
    with our_repository(base.bare) as repository:
        missing = repository.git.rev_list("--count", f"{commit}..{base.commit}")
        changes = repository.git.output("diff", "--raw", "-z", "--no-renames", base.commit, commit)
    if missing != "0":
        yield f"history was rewritten: the work does not stand on {base.commit[:7]}"
    if re.search(rb":\d+ 160000 ", changes):  # git stores a commit id instead of the files
        yield "a directory of the work is a git repository itself: its files are not in the branch"
    changed = set(changes.split(b"\0")[1::2])
    if large := [os.fsencode(one.path) for one in base.lfs if os.fsencode(one.path) in changed]:
        yield f"git LFS files are in the branch whole, not as pointers: {_join_paths(large)}"


def _submodule_notices(sandbox: Sandbox, base: BaseCommit) -> Iterator[str]:
    """Report submodules with changes, which a branch of the repository cannot hold."""
    for submodule in base.submodules:
        status = ("status", "--porcelain=v2", "--branch")
        shown = _try_git(sandbox, *status, cwd=submodule.path).stdout.decode("utf-8", "replace")
        changed = [line for line in shown.splitlines() if not line.startswith("# ")]
        if changed or f"# branch.oid {submodule.commit}" not in shown:
            yield f"submodule {submodule.path!r} was changed, and its changes are not in the branch"


def reset_index(sandbox: Sandbox) -> tuple[str, ...]:
    """Rebuild git's index so that it looks at every file; return notices.

    The agent can flag files in the index as unchanged; these flags are dropped. Files that a
    sparse checkout removed stay in the work as they were, and a notice names them.

    Raises:
        GitFailed: a git command inside failed.
        SandboxLost: the sandbox is gone.
    """
    listed = _git(sandbox, "ls-files", "-v", "--stage", "-z", output_limit=LIST_LIMIT).stdout
    entries = [entry for entry in listed.split(b"\0") if entry]  # "<tag> <mode> <id> 0\t<path>"
    _check(_remove(sandbox, ".git/index"), "rm")
    _update(sandbox, [entry[2:] for entry in entries], "--index-info")
    _try_git(sandbox, "update-index", "-q", "--refresh")  # fails where a file has changed
    # In lower case the file is also flagged as unchanged.
    skipped = {entry.partition(b"\t")[2] for entry in entries if entry[:1] in b"Ss"}
    if not skipped:
        return ()
    deleted = _git(sandbox, "ls-files", "--deleted", "-z", output_limit=LIST_LIMIT).stdout
    absent = sorted(skipped & set(deleted.split(b"\0")))
    _update(sandbox, absent, "--skip-worktree", "--stdin")
    if not absent:
        return ()
    return (
        f"not there when the work was checked, but in the branch as before: {_join_paths(absent)}",
    )


def ignored_files_notice(sandbox: Sandbox) -> tuple[str, ...]:
    """Return a notice that names the ignored files that the base did not have.

    Except JUNK, and what installs and tests wrote.

    Raises:
        SandboxLost: the sandbox is gone.
    """
    no_junk = (f":(exclude,glob)**/{name}{'**' * name.endswith('/')}" for name in JUNK)
    selection = ("--others", "--ignored", "--exclude-standard", "-z", "--", ".", *no_junk)
    only_own = ("-c", "core.excludesFile=/dev/null")
    found = _try_git(sandbox, *only_own, "ls-files", *selection, output_limit=LIST_LIMIT)
    paths = [path for path in found.stdout.split(b"\0") if path]
    if not found.ok or not paths:
        return ()
    return (f"not in the branch, because git ignores it: {_join_paths(paths)}",)


def _git(
    sandbox: Sandbox,
    *args: str,
    stdin: bytes = b"",
    output_limit: int = DEFAULT_OUTPUT_LIMIT,
    cwd: str | None = None,
) -> ExecResult:
    """Run git in the workspace; raise GitFailed, ending with git's error, if it fails."""
    ran = _try_git(sandbox, *args, stdin=stdin, output_limit=output_limit, cwd=cwd)
    return _check(ran, f"git {args[0]}")


def _try_git(
    sandbox: Sandbox,
    *args: str,
    stdin: bytes = b"",
    output_limit: int = DEFAULT_OUTPUT_LIMIT,
    cwd: str | None = None,
) -> ExecResult:
    return sandbox.exec(
        Command(
            argv=(*_GIT, *args),
            cwd=cwd,
            stdin=stdin,
            timeout_s=TIMEOUT_S,
            output_limit=output_limit,
        )
    )


def _remove(sandbox: Sandbox, *paths: str) -> ExecResult:
    """Remove files of the workspace, if they exist."""
    return sandbox.exec(Command(argv=("rm", "-f", *paths), timeout_s=TIMEOUT_S))


def _check(result: ExecResult, what: str) -> ExecResult:
    if not result.ok:
        why = result.launch_error or error_text(result.stderr)
        raise GitFailed(
            f"{what} in the sandbox {'timed out' if result.timed_out else 'failed'}: {why}"
        )
    return result


def _update(sandbox: Sandbox, lines: Collection[bytes], *how: str) -> None:
    if lines:
        _git(sandbox, "update-index", "-z", *how, stdin=b"\0".join((*lines, b"")))


def _join_paths(paths: list[bytes]) -> str:
    names = [name if name.isprintable() else repr(name) for name in map(fsdecode, paths)]
    more = [f"and {len(names) - _NAMED_PATHS} more"] if len(names) > _NAMED_PATHS else []
    return ", ".join(names[:_NAMED_PATHS] + more)
