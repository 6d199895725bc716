"""Submodules go into the sandbox, from the user's own clone or the repository's own host."""

from pathlib import Path

import pytest

from contracts.sandbox import Sandbox
from sandbox.repos import fetch_base
from sandbox.sources import Source
from sandbox.submodules import wanted_submodules
from sandbox.workspace import clone_into_sandbox
from tests.support.git_repos import commit_files, make_repo, run_git
from tests.support.workspace_work import BRANCH, inside, taken

FILE = ("-c", "protocol.file.allow=always")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with a submodule that has a submodule itself; both are in the user's clone."""
    leaf = make_repo(tmp_path / "leaf", {"leaf.txt": b"leaf\n"})
    part = make_repo(tmp_path / "part", {"part.txt": b"part\n"})
    add(part, leaf, "leaf")
    made = make_repo(tmp_path / "shop")
    add(made, part, "lib/part")
    run_git(made, *FILE, "submodule", "update", "--init", "--recursive", "--quiet")
    return made


def add(repo: Path, submodule: Path, path: str) -> None:
    run_git(repo, *FILE, "submodule", "add", "--quiet", str(submodule), path)
    run_git(repo, "commit", "--quiet", "--message", f"Add {path}")


def test_submodules_of_the_users_clone_are_in_the_sandbox(
    tmp_path: Path, shop: Path, sandbox: Sandbox
) -> None:
    base = fetch_base(str(shop), store=tmp_path / "store")
    clone_into_sandbox(sandbox, base, BRANCH)
    assert base.notices == ()
    assert sandbox.read_file("lib/part/part.txt") == b"part\n"
    assert sandbox.read_file("lib/part/leaf/leaf.txt") == b"leaf\n"
    assert inside(sandbox, "git status --porcelain") == ""


def test_work_beside_a_submodule_comes_out_and_work_in_it_is_named(
    tmp_path: Path, shop: Path, sandbox: Sandbox
) -> None:
    base = fetch_base(str(shop), store=tmp_path / "store")
    clone_into_sandbox(sandbox, base, BRANCH)
    inside(sandbox, "echo 1 > new.txt; echo 2 > lib/part/part.txt")
    work = taken(sandbox, base)
    assert "new.txt" in work.diff
    assert "part.txt" not in work.diff
    assert "submodule 'lib/part' was changed, and its changes are not in the branch" in work.notices


def test_a_submodule_that_is_not_in_the_clone_is_named(
    tmp_path: Path, shop: Path, sandbox: Sandbox
) -> None:
    run_git(tmp_path, "clone", "--quiet", str(shop), "copy")
    base = fetch_base(str(tmp_path / "copy"), store=tmp_path / "store")
    clone_into_sandbox(sandbox, base, BRANCH)
    (notice,) = base.notices
    assert notice.startswith("submodule 'lib/part' is not fetched, its directory is empty: ")
    assert "git submodule update --init" in notice


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("../part.git", "https://forge.example/team/part.git"),
        ("https://forge.example/other/part.git", "https://forge.example/other/part.git"),
        ("https://elsewhere.example/part.git", None),
        ("ext::sh -c touch", None),
        ("/srv/private.git", None),
        ("file:///srv/private.git", None),
    ],
)
def test_only_the_repositorys_own_host_is_asked(
    tmp_path: Path, url: str, address: str | None
) -> None:
    repo = make_repo(tmp_path / "shop")
    text = f'[submodule "part"]\n\tpath = part\n\turl = {url}\n'
    commit_files(repo, {".gitmodules": text.encode()})
    link = f"160000,{run_git(repo, 'rev-parse', 'HEAD')},part"
    run_git(repo, "update-index", "--add", "--cacheinfo", link)
    run_git(repo, "commit", "--quiet", "--message", "Add part")
    source = Source(
        address="https://forge.example/team/shop.git",
        path=None,
        commit=run_git(repo, "rev-parse", "HEAD"),
        ref_name=None,
    )
    (wanted,) = wanted_submodules(repo / ".git", source)
    assert (wanted.source.address if wanted.source else None) == address
