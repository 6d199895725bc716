"""Tags go along into the sandbox, and none comes out."""

from pathlib import Path

import pytest

from contracts.sandbox import Sandbox
from sandbox.branches import publish_branch
from sandbox.bundles import bundle_base
from sandbox.repos import WELL_FORMED_TAG, BaseCommit, fetch_base
from sandbox.workspace import clone_into_sandbox
from tests.support.git_repos import commit_files, every_byte, git_output, run_git
from tests.support.workspace_work import BRANCH, inside, taken

DESCRIBE = "git describe --always; git describe --always --tags; git tag --list"


@pytest.fixture
def tagged(repo: Path) -> Path:
    """A repository whose HEAD is two commits after an annotated and one after a simple tag."""
    run_git(repo, "tag", "--annotate", "--message=First", "v1.0")
    commit_files(repo, {"two": b"2"})
    run_git(repo, "tag", "simple")
    commit_files(repo, {"three": b"3"})
    return repo


def opened(sandbox: Sandbox, address: str, store: Path) -> BaseCommit:
    base = fetch_base(address, store=store)
    clone_into_sandbox(sandbox, base, BRANCH)
    return base


def tags_of(base: BaseCommit) -> bytes:
    with bundle_base(base) as made:
        return made.tags


def outside(repo: Path, line: str = DESCRIBE) -> str:
    return "\n".join(run_git(repo, *part.split()[1:]) for part in line.split("; "))


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_commit_is_described_inside_as_it_is_outside(
    tmp_path: Path, tagged: Path, sandbox: Sandbox, scheme: str
) -> None:
    opened(sandbox, f"{scheme}{tagged}", tmp_path / "store")
    assert inside(sandbox, DESCRIBE) == outside(tagged)
    assert outside(tagged).startswith("v1.0-2-g")


def test_only_tags_of_the_commits_history_come_along(
    tmp_path: Path, tagged: Path, sandbox: Sandbox
) -> None:
    run_git(tagged, "switch", "--quiet", "--create", "aside", "v1.0")
    commit_files(tagged, {"aside": b"1"})
    run_git(tagged, "tag", "aside-1")
    run_git(tagged, "switch", "--quiet", "main")
    opened(sandbox, str(tagged), tmp_path / "store")
    assert inside(sandbox, "git tag --list") == "simple\nv1.0"


def test_a_tag_that_was_moved_or_deleted_since_the_last_run_is_followed(
    tmp_path: Path, tagged: Path, sandbox: Sandbox
) -> None:
    fetch_base(str(tagged), store=tmp_path / "store")
    run_git(tagged, "tag", "--delete", "simple")
    run_git(tagged, "tag", "--force", "--annotate", "--message=Moved", "v1.0", "HEAD")
    run_git(tagged, "tag", "simple/inner")
    opened(sandbox, str(tagged), tmp_path / "store")
    assert inside(sandbox, DESCRIBE) == outside(tagged) == "v1.0\nv1.0\nsimple/inner\nv1.0"


MISLEADING = (
    "HEAD", "FETCH_HEAD", "origin/HEAD", "heads/main", "tags/v1.0", "main", "harness/r-1/fix-tests",
)  # fmt: skip
ODD = ("-delete", "--upload-pack=touch", "$(touch-x)", "a;b", "caf\u00e9", "'quoted\"", "1.0")


def test_a_tag_with_a_hostile_name_is_never_used_as_a_branch(
    tmp_path: Path, repo: Path, sandbox: Sandbox
) -> None:
    commit_files(repo, {"two": b"2"})
    head = run_git(repo, "rev-parse", "refs/heads/main")
    for name in (*MISLEADING, *ODD, f"refs/harness/base/{head}"):
        run_git(repo, "update-ref", f"refs/tags/{name}", f"{head}~1")

    base = opened(sandbox, str(repo), tmp_path / "store")

    assert base.commit == head
    left_out = "8 tags are not in the sandbox: git could take the name for a branch or for HEAD"
    assert base.notices[-1] == left_out
    listed = inside(sandbox, "git for-each-ref --format='%(refname)' refs/tags").splitlines()
    assert sorted(listed) == sorted(f"refs/tags/{name}" for name in ODD)
    inside(sandbox, "echo 2 > f")
    work = taken(sandbox, base)
    assert run_git(base.bare, "rev-parse", f"{work.commit}^") == head


def test_no_tag_that_was_made_or_moved_inside_comes_out(
    tmp_path: Path, tagged: Path, sandbox: Sandbox
) -> None:
    base = opened(sandbox, str(tagged), tmp_path / "store")
    before = (outside(tagged), tags_of(base))
    inside(sandbox, "echo 2 > f; git add f; git commit -qm two")
    inside(sandbox, "git tag new; git tag --force simple; git tag -am x v2; git tag --delete v1.0")

    publish_branch(base, BRANCH, taken(sandbox, base).commit)

    assert (outside(tagged), tags_of(base)) == before
    assert run_git(base.bare, "tag", "--list") == ""


def test_a_tag_that_the_user_deleted_meanwhile_does_not_come_back(
    tmp_path: Path, tagged: Path, sandbox: Sandbox
) -> None:
    base = opened(sandbox, str(tagged), tmp_path / "store")
    run_git(tagged, "tag", "--delete", "v1.0", "simple")
    inside(sandbox, "echo 2 > f")
    publish_branch(base, BRANCH, taken(sandbox, base).commit)
    assert run_git(tagged, "tag", "--list") == ""


def test_opening_a_tagged_repository_leaves_it_as_it_was(tmp_path: Path, tagged: Path) -> None:
    before = every_byte(tagged)
    fetch_base(str(tagged), store=tmp_path / "store")
    assert every_byte(tagged) == before


def test_a_run_after_garbage_collection_has_its_tags(
    tmp_path: Path, tagged: Path, sandbox: Sandbox
) -> None:
    first = fetch_base(str(tagged), store=tmp_path / "store")
    git_output(first.bare, "gc", "--quiet", "--prune=now")
    assert b"v1.0" not in tags_of(first)  # its object is gone until the next run
    opened(sandbox, str(tagged), tmp_path / "store")
    assert inside(sandbox, DESCRIBE) == outside(tagged)


@pytest.mark.parametrize(
    "name", ["..", "a..b", "a b", "a.lock", "a/.b", "a~1", "a^{}", "a:b", "x//y", "a.", "/a", "@{"]
)
def test_a_ref_that_is_not_a_well_formed_tag_is_omitted(name: str) -> None:
    """A server may list any; the file of tags is written by us."""
    assert not WELL_FORMED_TAG.fullmatch(f"refs/tags/{name}".encode())
