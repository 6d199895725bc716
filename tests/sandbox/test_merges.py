"""A newer base is merged into the work: in the sandbox with conflicts left, and checked outside."""

from pathlib import Path

import pytest

from contracts.errors import GitFailed, WorkRefused
from contracts.sandbox import Sandbox
from sandbox.merges import check_merged, conflicts
from sandbox.repos import BaseCommit, fetch_newer_base
from sandbox.workspace import collect_work, merge_into_sandbox
from tests.support.git_repos import commit_files
from tests.support.workspace_work import BRANCH, inside, taken


def newer(repo: Path, base: BaseCommit, files: dict[str, bytes]) -> BaseCommit:
    commit_files(repo, files)
    return fetch_newer_base(base, str(repo), "main")


def test_a_conflict_is_left_in_the_files_and_its_resolution_becomes_a_merge_commit(
    work_in: Sandbox, base: BaseCommit, repo: Path
) -> None:
    inside(work_in, "echo ours > hello.txt")
    before = taken(work_in, base)
    later = newer(repo, base, {"hello.txt": b"theirs\n", "new.txt": b"new\n"})
    assert conflicts(later, before.commit)
    assert merge_into_sandbox(work_in, later) == ("hello.txt",)
    assert "<<<<<<<" in inside(work_in, "cat hello.txt")
    with pytest.raises(WorkRefused, match=r"conflict markers are left in hello\.txt"):
        check_merged(later, taken(work_in, later).commit)
    inside(work_in, "echo both > hello.txt")
    work = taken(work_in, later)
    check_merged(later, work.commit)
    assert not conflicts(later, work.commit)
    assert (work.diff_stat.files, "new.txt" in work.diff) == (1, False)
    assert inside(work_in, "cat new.txt; ls .git | grep -c bundle || true") == "new\n0"


def test_a_base_without_conflicts_is_merged_also_where_nothing_of_it_is_new(
    work_in: Sandbox, base: BaseCommit, repo: Path
) -> None:
    inside(work_in, "echo ours > hello.txt")
    before = taken(work_in, base)
    later = newer(repo, base, {"hello.txt": b"ours\n"})
    assert not conflicts(later, before.commit)
    assert merge_into_sandbox(work_in, later) == ()
    work = collect_work(work_in, later, BRANCH, message="Merge")
    assert work is not None
    check_merged(later, work.commit)


def test_work_that_undoes_the_merge_is_refused(
    work_in: Sandbox, base: BaseCommit, repo: Path
) -> None:
    inside(work_in, "echo ours > hello.txt")
    taken(work_in, base)
    later = newer(repo, base, {"hello.txt": b"theirs\n"})
    merge_into_sandbox(work_in, later)
    inside(work_in, "git merge --abort")
    with pytest.raises(WorkRefused, match="is not merged"):
        check_merged(later, taken(work_in, later).commit)


def test_a_base_that_git_cannot_merge_is_said(
    work_in: Sandbox, base: BaseCommit, repo: Path
) -> None:
    later = newer(repo, base, {"new.txt": b"theirs\n"})
    inside(work_in, "echo mine > new.txt")
    with pytest.raises(GitFailed, match="git merge in the sandbox failed"):
        merge_into_sandbox(work_in, later)
