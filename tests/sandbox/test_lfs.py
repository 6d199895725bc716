"""Files of git LFS come along from the user's clone; the branch has their pointers as before."""

import hashlib
from pathlib import Path

import pytest

from contracts.sandbox import Sandbox
from sandbox.diffs import diff
from sandbox.repos import BaseCommit, fetch_base
from sandbox.workspace import clone_into_sandbox, collect_work
from tests.support.git_repos import commit_files, make_repo, run_git
from tests.support.workspace_work import BRANCH, inside, taken

LOGO = b"\x89PNG\0\r\n" * 100
OTHER = b"not in the clone"


def pointer(content: bytes) -> bytes:
    oid = hashlib.sha256(content).hexdigest()
    return (
        b"version https://git-lfs.github.com/spec/v1\n"
        + f"oid sha256:{oid}\nsize {len(content)}\n".encode()
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with two LFS files, of which the clone has one."""
    made = make_repo(tmp_path / "shop", {".gitattributes": b"*.png -text filter=lfs\n"})
    run_git(made, "config", "filter.lfs.clean", "cat")
    commit_files(made, {"media/logo.png": pointer(LOGO), "other.png": pointer(OTHER)})
    store(made, LOGO)
    return made


def store(repo: Path, content: bytes) -> Path:
    oid = hashlib.sha256(content).hexdigest()
    place = repo / ".git/lfs/objects" / oid[:2] / oid[2:4] / oid
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    return place


@pytest.fixture
def base(shop: Path, tmp_path: Path) -> BaseCommit:
    return fetch_base(str(shop), store=tmp_path / "store")


def test_what_the_clone_has_is_in_the_sandbox_and_the_rest_is_named(
    base: BaseCommit, sandbox: Sandbox
) -> None:
    clone_into_sandbox(sandbox, base, BRANCH)
    assert sandbox.read_file("media/logo.png") == LOGO
    assert sandbox.read_file("other.png") == pointer(OTHER)
    assert inside(sandbox, "git status --porcelain") == ""
    (notice,) = base.notices
    assert notice.startswith("1 of 2 git LFS files are not fetched")


def test_unchanged_files_are_no_work_whatever_git_checks_out(
    base: BaseCommit, sandbox: Sandbox
) -> None:
    clone_into_sandbox(sandbox, base, BRANCH)
    inside(sandbox, "rm media/logo.png && git checkout --quiet -- . && touch media/logo.png")
    assert sandbox.read_file("media/logo.png") == LOGO
    assert collect_work(sandbox, base, BRANCH, message="Leftovers") is None


def test_a_changed_file_is_in_the_branch_whole_and_named(
    base: BaseCommit, sandbox: Sandbox
) -> None:
    clone_into_sandbox(sandbox, base, BRANCH)
    inside(sandbox, "echo new > media/logo.png; echo two > hello.txt")
    work = taken(sandbox, base)
    assert "+new" in diff(base, work.commit)
    assert work.notices == (
        "git LFS files are in the branch whole, not as pointers: media/logo.png",
    )


def test_an_object_with_another_content_is_not_taken(
    shop: Path, tmp_path: Path, sandbox: Sandbox
) -> None:
    place = next((shop / ".git/lfs/objects").rglob("*/*/*"))
    place.write_bytes(b"damaged")
    damaged = fetch_base(str(shop), store=tmp_path / "store")
    clone_into_sandbox(sandbox, damaged, BRANCH)
    assert sandbox.read_file("media/logo.png") == pointer(LOGO)


def test_a_linked_worktree_has_the_files_of_its_clone(
    shop: Path, tmp_path: Path, sandbox: Sandbox
) -> None:
    run_git(shop, "worktree", "add", "--quiet", str(tmp_path / "beside"), "HEAD")
    clone_into_sandbox(sandbox, fetch_base(str(tmp_path / "beside"), store=tmp_path / "s"), BRANCH)
    assert sandbox.read_file("media/logo.png") == LOGO


def test_without_lfs_files_attributes_are_no_notice(tmp_path: Path) -> None:
    plain = make_repo(tmp_path / "plain", {".gitattributes": b"*.png filter=lfs\n"})
    assert fetch_base(str(plain), store=tmp_path / "store").notices == ()
