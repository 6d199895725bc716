"""Files of git LFS come along; the branch has their pointers as before."""

import hashlib
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from contracts.sandbox import Sandbox
from sandbox.diffs import diff
from sandbox.lfs import remove_lfs_files
from sandbox.repos import BaseCommit, fetch_base
from sandbox.workspace import clone_into_sandbox, collect_work
from tests.support.git_repos import commit_files, make_repo, run_git
from tests.support.git_server import git_server
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


needs_git_lfs = pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is missing")


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a repository with two LFS files; git knows the password of its server.

    Its server has one of the files. The repository names another server for them, where none is.
    """
    made = make_repo(tmp_path / "shop", {".gitattributes": b"*.png -text filter=lfs\n"})
    run_git(made, "config", "filter.lfs.clean", "cat")
    elsewhere = b"[lfs]\n\turl = http://127.0.0.1:9/\n"
    pointers = {"media/logo.png": pointer(LOGO), "other.png": pointer(OTHER)}
    commit_files(made, {".lfsconfig": elsewhere, **pointers})
    served = tmp_path / "served"
    run_git(tmp_path, "clone", "--quiet", "--bare", str(made), str(served / "shop.git"))
    (served / "shop.git/lfs").mkdir()
    (served / "shop.git/lfs" / hashlib.sha256(LOGO).hexdigest()).write_bytes(LOGO)
    with git_server(served, user="ada", password="correct-horse") as place:
        (tmp_path / "passwords").write_text(f"http://ada:correct-horse@{place}\n")
        helper = f"[credential]\n\thelper = store --file {tmp_path}/passwords\n"
        (tmp_path / "gitconfig").write_text(helper)
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
        yield f"http://{place}/shop.git"


@needs_git_lfs
def test_what_the_server_of_a_url_has_is_in_the_sandbox_and_the_rest_is_named(
    url: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    base = fetch_base(url, store=tmp_path / "store")
    clone_into_sandbox(sandbox, base, BRANCH)
    assert sandbox.read_file("media/logo.png") == LOGO
    assert sandbox.read_file("other.png") == pointer(OTHER)
    (notice,) = base.notices
    assert notice.startswith("1 of 2 git LFS files are not fetched")


@needs_git_lfs
def test_lfs_files_of_a_url_are_fetched_once_and_removed_when_no_run_uses_them(
    url: str, tmp_path: Path
) -> None:
    (fetched,) = fetch_base(url, store=tmp_path / "store").lfs
    shutil.rmtree(tmp_path / "served/shop.git/lfs")
    (again,) = (base := fetch_base(url, store=tmp_path / "store")).lfs
    assert again == fetched
    remove_lfs_files(base.bare, datetime.now(UTC) - timedelta(days=1))
    assert again.place.read_bytes() == LOGO
    remove_lfs_files(base.bare, datetime.now(UTC) + timedelta(days=1))
    assert not again.place.exists()


def test_without_git_lfs_on_this_machine_the_notice_names_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").symlink_to(shutil.which("git") or "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (notice,) = fetch_base(url, store=tmp_path / "store").notices
    assert "git-lfs is not installed on this machine" in notice
