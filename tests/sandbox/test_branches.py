"""A run's branch appears in the user's repository, and nothing else there moves."""

import os
from pathlib import Path

import pytest

from contracts.errors import GitFailed
from sandbox.branches import list_branches, publish_branch, push_branch
from sandbox.diffs import file_diff
from sandbox.repos import BaseCommit, fetch_base
from tests.support.git_repos import commit_files, every_byte, make_repo, run_git

BRANCH = "harness/r-1/fix-tests"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "shop")


def worked(repo: Path, tmp_path: Path, *, url: bool = False) -> tuple[BaseCommit, str]:
    """The repository opened, with one commit of a run in the bare copy."""
    base = fetch_base(f"file://{repo}" if url else str(repo), store=tmp_path / "store")
    tree = f"{base.commit}^{{tree}}"
    commit = run_git(base.bare, "commit-tree", "-p", base.commit, "-m", "Work", tree)
    run_git(base.bare, "update-ref", f"refs/heads/{BRANCH}", commit)
    return base, commit


def test_publishing_adds_a_ref_and_objects_and_touches_nothing_else(
    repo: Path, tmp_path: Path
) -> None:
    base, commit = worked(repo, tmp_path)
    (repo / "hello.txt").write_text("changed, not committed")
    (repo / "staged.txt").write_text("staged")
    run_git(repo, "add", "staged.txt")
    before = every_byte(repo)

    assert publish_branch(base, BRANCH, commit) == repo

    after = every_byte(repo)
    added = {name for name in after if name not in before}
    assert {name: after[name] for name in before} == before
    refs = {f".git/refs/heads/{BRANCH}", f".git/logs/refs/heads/{BRANCH}"}
    assert refs <= added
    assert all(name.startswith(".git/objects/") for name in added - refs)
    assert run_git(repo, "rev-parse", BRANCH) == commit


def test_publishing_runs_no_hook_and_no_monitor_of_the_user(repo: Path, tmp_path: Path) -> None:
    base, commit = worked(repo, tmp_path)
    hook = repo / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/canary\n")
    hook.chmod(0o755)
    run_git(repo, "config", "core.fsmonitor", str(hook))

    publish_branch(base, BRANCH, commit)

    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "config", ["fetch.prune=true", "fetch.writeCommitGraph=true", "gc.auto=1", "fetch.all=true"]
)
def test_publishing_heeds_no_setting_that_would_do_more(
    repo: Path, tmp_path: Path, config: str
) -> None:
    base, commit = worked(repo, tmp_path)
    run_git(repo, "config", *config.split("="))
    run_git(repo, "branch", "harness/other")
    before = every_byte(repo)

    publish_branch(base, BRANCH, commit)

    after = every_byte(repo)
    assert {name: after.get(name) for name in before} == before
    assert not list(repo.glob(".git/objects/info/commit-graph*"))


def test_publishing_again_moves_forward_only(repo: Path, tmp_path: Path) -> None:
    base, commit = worked(repo, tmp_path)
    publish_branch(base, BRANCH, commit)
    publish_branch(base, BRANCH, commit)
    run_git(repo, "checkout", "--quiet", BRANCH)
    theirs = commit_files(repo, {"mine": b"1"})
    run_git(repo, "checkout", "--quiet", "main")

    with pytest.raises(GitFailed, match="non-fast-forward"):
        publish_branch(base, BRANCH, commit)

    assert run_git(repo, "rev-parse", BRANCH) == theirs


def test_a_checked_out_branch_is_not_moved(repo: Path, tmp_path: Path) -> None:
    base, commit = worked(repo, tmp_path)
    run_git(repo, "checkout", "--quiet", "-b", BRANCH)

    with pytest.raises(GitFailed, match="refusing to fetch into"):
        publish_branch(base, BRANCH, commit)


@pytest.mark.parametrize("branch", ["--force", "a:refs/heads/main", "a..b", "a b", "", "/a"])
def test_a_branch_name_that_could_mean_more_is_refused(
    repo: Path, tmp_path: Path, branch: str
) -> None:
    base, commit = worked(repo, tmp_path)

    with pytest.raises(ValueError, match="not a branch name"):
        publish_branch(base, branch, commit)


def test_the_branch_of_a_url_stays_in_the_bare_repository(repo: Path, tmp_path: Path) -> None:
    base, commit = worked(repo, tmp_path, url=True)
    before = every_byte(repo)

    assert publish_branch(base, BRANCH, commit) == base.bare
    assert every_byte(repo) == before


def test_pushing_a_local_repository_reaches_its_origin(repo: Path, tmp_path: Path) -> None:
    run_git(tmp_path, "clone", "--quiet", "--bare", str(repo), "origin.git")
    run_git(repo, "remote", "add", "origin", str(tmp_path / "origin.git"))
    base, commit = worked(repo, tmp_path)
    publish_branch(base, BRANCH, commit)

    push_branch(base, BRANCH)

    assert run_git(tmp_path / "origin.git", "rev-parse", BRANCH) == commit


def test_pushing_a_url_reaches_the_url(repo: Path, tmp_path: Path) -> None:
    base, commit = worked(repo, tmp_path, url=True)

    push_branch(base, BRANCH)

    assert run_git(repo, "rev-parse", BRANCH) == commit


def test_a_push_never_forces(repo: Path, tmp_path: Path) -> None:
    base, _ = worked(repo, tmp_path, url=True)
    other = commit_files(repo, {"other": b"1"})
    run_git(repo, "branch", BRANCH, other)

    with pytest.raises(GitFailed, match="rejected"):
        push_branch(base, BRANCH)

    assert run_git(repo, "rev-parse", BRANCH) == other


def test_a_push_without_a_remote_says_so(repo: Path, tmp_path: Path) -> None:
    base, commit = worked(repo, tmp_path)
    publish_branch(base, BRANCH, commit)

    with pytest.raises(GitFailed, match="'origin' does not appear to be a git repository") as error:
        push_branch(base, BRANCH)

    assert "\n" not in str(error.value)


def test_a_failed_push_shows_no_credentials(repo: Path, tmp_path: Path) -> None:
    run_git(repo, "remote", "add", "origin", "https://me:secret@127.0.0.1:1/x.git")
    base, commit = worked(repo, tmp_path)
    publish_branch(base, BRANCH, commit)

    with pytest.raises(GitFailed) as error:
        push_branch(base, BRANCH)

    assert "secret" not in str(error.value)
    assert os.linesep not in str(error.value)


def test_a_large_file_is_shown_by_its_beginnings(repo: Path, tmp_path: Path) -> None:
    old = commit_files(repo, {"log": b"old\n"})
    commit = commit_files(repo, {"log": b"new\n" + b"\n" * (9 << 20)})
    run_git(repo, "reset", "--quiet", "--hard", old)
    base = fetch_base(str(repo), store=tmp_path / "store")
    run_git(base.bare, "fetch", "--quiet", str(repo), commit)

    shown = file_diff(base, commit, "log", limit=100)

    assert shown.startswith("before:\nold\n\nafter:\nnew\n")
    assert shown.endswith("[… cut after 100 bytes: what follows is not shown here …]")


@pytest.mark.parametrize(("seconds", "year"), [(253402300800, 9999), (1, 1970)])
def test_a_commit_of_any_date_is_listed(
    repo: Path, tmp_path: Path, seconds: int, year: int
) -> None:
    base, commit = worked(repo, tmp_path)
    tree = run_git(base.bare, "rev-parse", f"{commit}^{{tree}}")
    (tmp_path / "commit").write_text(
        f"tree {tree}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> {seconds} +0000\n\nWork\n"
    )
    dated = run_git(base.bare, "hash-object", "-t", "commit", "-w", str(tmp_path / "commit"))
    run_git(base.bare, "update-ref", f"refs/heads/{BRANCH}", dated)

    assert [branch.committed_at.year for branch in list_branches(base.bare, "harness/")] == [year]
