"""In as a bundle, out as a bundle; whatever the agent did to `.git`, the host runs none of it."""

import os
import tracemalloc
from pathlib import Path

import pytest

from contracts.errors import GitFailed, WorkRefused
from contracts.run import DiffStat
from contracts.sandbox import Sandbox
from sandbox.branches import publish_branch
from sandbox.diffs import DIFF_LIMIT, diff
from sandbox.repos import BaseCommit, fetch_base
from sandbox.workspace import clone_into_sandbox, collect_work
from tests.support.git_repos import commit_files, git_output, run_git
from tests.support.workspace_work import BRANCH, inside, taken


def test_the_clone_is_on_its_branch_with_an_identity_and_leads_nowhere(
    work_in: Sandbox, base: BaseCommit
) -> None:
    assert inside(work_in, "git rev-parse HEAD") == base.commit
    assert inside(work_in, "git symbolic-ref --short HEAD") == BRANCH
    assert inside(work_in, "git config user.name; git config user.email") == (
        "Harness\nharness@localhost"
    )
    assert inside(work_in, "git remote; git status --porcelain; ls -A; ls .git") == (
        inside(work_in, "ls -A; ls .git")
    )
    assert "bundle" not in inside(work_in, "find .git -name '*bundle*'")


def test_odd_names_modes_and_links_arrive_as_they_were(
    tmp_path: Path, repo: Path, sandbox: Sandbox
) -> None:
    (repo / "line\nbreak").write_bytes(b"\0\xff")
    Path(os.fsdecode(bytes(repo) + b"/caf\xe9 1")).write_bytes(b"4")
    (repo / "run.sh").write_bytes(b"#!/bin/sh\n")
    (repo / "run.sh").chmod(0o755)
    (repo / "link").symlink_to("hello.txt")
    commit_files(repo, {})

    base = fetch_base(str(repo), store=tmp_path / "store")
    clone_into_sandbox(sandbox, base, BRANCH)

    assert inside(sandbox, "git status --porcelain") == ""
    assert inside(sandbox, "cat caf*") == "4"
    assert inside(sandbox, "test -x run.sh && readlink link") == "hello.txt"
    assert sandbox.read_file("line\nbreak") == b"\0\xff"


def test_nothing_changed_gives_no_work(work_in: Sandbox, base: BaseCommit) -> None:
    assert collect_work(work_in, base, BRANCH, message="Leftovers") is None


def test_commits_and_uncommitted_changes_come_out_with_a_diff(
    work_in: Sandbox, base: BaseCommit
) -> None:
    inside(work_in, "echo two >> hello.txt && git commit -qam 'By hand'")
    inside(work_in, "printf 'x\\ny\\n' > new.txt; rm src/a.py")

    work = taken(work_in, base)

    assert work.diff_stat == DiffStat(files=3, insertions=3, deletions=1)
    assert "+++ b/new.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n" in work.diff
    log = run_git(base.bare, "log", "--format=%an|%s", f"{base.commit}..{work.commit}")
    assert log == "Harness|Leftovers\nHarness|By hand"
    assert work.notices == ()


def test_files_that_tests_leave_behind_are_not_work(work_in: Sandbox, base: BaseCommit) -> None:
    inside(work_in, "mkdir -p src/__pycache__ .venv/bin a.egg-info node_modules/x .pytest_cache")
    inside(work_in, "touch src/__pycache__/a.pyc .venv/bin/p a.egg-info/x node_modules/x/y")

    assert collect_work(work_in, base, BRANCH, message="Leftovers") is None


@pytest.mark.parametrize("message", ["x" * 200_000, "a\0b", "\ud800", ""])
def test_no_message_keeps_the_work_from_coming_out(
    work_in: Sandbox, base: BaseCommit, message: str
) -> None:
    inside(work_in, "echo two >> hello.txt")
    work = collect_work(work_in, base, BRANCH, message=message)
    assert work is not None
    assert work.diff_stat.files == 1


def test_a_binary_file_is_named_and_a_long_diff_is_cut(work_in: Sandbox, base: BaseCommit) -> None:
    inside(work_in, "printf 'a\\0b' > raw.bin; seq 1 400000 > long.txt")

    work = taken(work_in, base)

    assert work.diff.endswith(f"[cut here: the diff is longer than {DIFF_LIMIT} bytes]\n")
    inside(work_in, "rm long.txt")
    assert "Binary files /dev/null and b/raw.bin differ" in taken(work_in, base).diff


@pytest.mark.parametrize(
    "line",
    [
        "git checkout -q --detach && echo 2 > f && git add f && git commit -qm two",
        "git checkout -q -b other && echo 2 > f && git add f && git commit -qm two",
        "git checkout -q -b harness-x && echo 2 > f",
        "echo 2 > f; touch .git/index.lock",
        "echo 2 > f; rm .git/index",
        "echo 2 > f; git config commit.gpgSign true; git config gpg.program false",
        "echo 2 > f; git config core.bare true",
        "echo 2 > f; git config core.worktree /",
        "echo 2 > f; mkdir .git/hooks; printf '#!/bin/sh\\nexit 1' > .git/hooks/pre-commit; "
        "chmod +x .git/hooks/pre-commit",
        "echo 2 > f; git replace HEAD $(git commit-tree -m x HEAD^{tree})",
    ],
)
def test_the_work_is_head_in_any_state_of_git(
    work_in: Sandbox, base: BaseCommit, line: str
) -> None:
    inside(work_in, line)

    work = taken(work_in, base)

    assert run_git(base.bare, "cat-file", "blob", f"{work.commit}:f") == "2"
    assert run_git(base.bare, "rev-parse", BRANCH) == work.commit
    assert run_git(base.bare, "rev-parse", f"{work.commit}^") == base.commit


@pytest.mark.parametrize(
    "line",
    [
        "git replace HEAD~1 $(git commit-tree -m x HEAD~1^{tree})",
        "git replace $(git rev-parse HEAD:f) $(echo other | git hash-object -w --stdin)",
        "git rev-parse HEAD > .git/info/grafts",
        "git rev-parse HEAD > .git/shallow",
        "git rev-parse HEAD~1 > .git/shallow",
    ],
)
def test_history_that_git_is_made_to_see_is_ignored_and_said(
    work_in: Sandbox, base: BaseCommit, line: str
) -> None:
    inside(work_in, f"echo 2 > f; git add f; git commit -qm two; echo 3 > g; {line}")

    work = taken(work_in, base)

    assert run_git(base.bare, "cat-file", "blob", f"{work.commit}:f") == "2"
    assert run_git(base.bare, "cat-file", "blob", f"{work.commit}:g") == "3"
    assert run_git(base.bare, "rev-parse", f"{work.commit}~2") == base.commit
    assert work.notices == (
        "replaced objects, grafts and cut history of the repository inside were ignored",
    )


def test_objects_in_another_store_come_out_and_it_is_said(
    work_in: Sandbox, base: BaseCommit
) -> None:
    inside(
        work_in,
        "mkdir -p /tmp/other && echo /tmp/other > .git/objects/info/alternates && "
        "echo /nowhere >> .git/objects/info/alternates && "
        "GIT_OBJECT_DIRECTORY=/tmp/other GIT_ALTERNATE_OBJECT_DIRECTORIES=$PWD/.git/objects "
        "sh -c 'echo 2 > f; git add f; git commit -qm two'",
    )

    work = taken(work_in, base)

    assert run_git(base.bare, "cat-file", "blob", f"{work.commit}:f") == "2"
    assert ["(alternates)" in one for one in work.notices] == [True]


def test_rewritten_history_comes_out_and_is_said(work_in: Sandbox, base: BaseCommit) -> None:
    inside(work_in, "git checkout -q --orphan fresh && git commit -qm 'All new'")

    assert taken(work_in, base).notices == (
        f"history was rewritten: the work does not stand on {base.commit[:7]}",
    )


def test_a_repository_within_the_work_is_said(work_in: Sandbox, base: BaseCommit) -> None:
    inside(
        work_in,
        "git init -q sub && cd sub && git -c user.name=x -c user.email=x "
        "commit -q --allow-empty -m x && echo 1 > f",
    )
    inside(work_in, "git init -q bare-bones; echo 1 > kept.txt")

    first, second = taken(work_in, base).notices

    assert "'bare-bones/' does not have a commit checked out" in first
    assert second.startswith("a directory of the work is a git repository itself")
    assert run_git(base.bare, "cat-file", "blob", f"{BRANCH}:kept.txt") == "1"


def test_a_shallow_source_goes_in_comes_out_and_is_published(
    tmp_path: Path, repo: Path, sandbox: Sandbox
) -> None:
    commit_files(repo, {"b": b"b"})
    run_git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repo}", "thin")
    base = fetch_base(str(tmp_path / "thin"), store=tmp_path / "store")
    clone_into_sandbox(sandbox, base, BRANCH)
    inside(sandbox, "echo 2 > f")

    work = taken(sandbox, base)

    publish_branch(base, BRANCH, work.commit)
    assert run_git(tmp_path / "thin", "rev-parse", BRANCH) == work.commit


def canary_commands(canary: Path) -> str:
    """A `.git` in which every door git has leads to `touch canary`."""
    touch = f"sh -c 'touch {canary}; cat'"
    keys = (
        "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "diff.external",
        "filter.x.clean", "filter.x.smudge", "diff.x.textconv", "diff.x.command",
        "merge.x.driver", "uploadpack.packObjectsHook", "gpg.program", "credential.helper",
    )  # fmt: skip
    config = "; ".join(f'git config {key} "{touch}"' for key in keys)
    hooks = (
        "for h in pre-commit post-commit post-checkout reference-transaction post-index-change "
        "post-rewrite pre-push update post-update pre-auto-gc fsmonitor-watchman; do "
        f"printf '#!/bin/sh\\ntouch {canary}\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done"
    )
    attributes = "echo '* filter=x diff=x merge=x' | tee .gitattributes > .git/info/attributes"
    return f"mkdir -p .git/hooks; {config}; {hooks}; {attributes}"


def test_nothing_of_the_agents_git_runs_on_the_host(
    tmp_path: Path, repo: Path, work_in: Sandbox, base: BaseCommit
) -> None:
    canary = tmp_path / "canary"
    inside(work_in, "echo 2 > f; git add f; git commit -qm two")
    inside(work_in, canary_commands(canary))
    work = taken(work_in, base)
    canary.unlink(missing_ok=True)  # inside, the agent may run what it likes

    publish_branch(base, BRANCH, work.commit)
    diff(base, work.commit)

    assert not canary.exists()
    assert "filter=x" in run_git(repo, "show", f"{BRANCH}:.gitattributes")


def test_a_symlink_out_of_the_repository_is_carried_and_not_followed(
    work_in: Sandbox, base: BaseCommit
) -> None:
    inside(work_in, "ln -s /etc/passwd stolen; ln -s /etc .config")

    work = taken(work_in, base)

    assert git_output(base.bare, "cat-file", "blob", f"{work.commit}:stolen") == b"/etc/passwd"
    assert "root:" not in work.diff


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("rm -rf .git", "not a git repository"),
        ("rm -rf .git; echo 'gitdir: /nowhere' > .git", "not a git repository"),
        ("echo ref: refs/heads/none/at/all > .git/HEAD; rm -r .git/objects", "cannot be taken out"),
        ("git reset -q --hard HEAD~1", "went back to before"),
    ],
)
def test_work_in_a_damaged_repository_is_refused_in_one_line(
    tmp_path: Path, repo: Path, sandbox: Sandbox, line: str, says: str
) -> None:
    commit_files(repo, {"second": b"2"})
    base = fetch_base(str(repo), store=tmp_path / "store")
    clone_into_sandbox(sandbox, base, BRANCH)
    inside(sandbox, line)

    with pytest.raises(WorkRefused, match=says) as error:
        collect_work(sandbox, base, BRANCH, message="Leftovers")

    assert "\n" not in str(error.value)


def test_work_over_the_limit_is_refused(
    work_in: Sandbox, base: BaseCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.workspace.WORK_LIMIT", 10_000)
    inside(work_in, "head -c 100000 /dev/urandom > big")

    with pytest.raises(WorkRefused, match="over the limit of 10000"):
        collect_work(work_in, base, BRANCH, message="Leftovers")


def test_large_work_comes_out_in_bounded_memory(work_in: Sandbox, base: BaseCommit) -> None:
    inside(work_in, "head -c 30000000 /dev/urandom > big")
    tracemalloc.start()
    try:
        work = taken(work_in, base)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert work.diff_stat.files == 1
    assert peak < 15_000_000


def test_putting_in_twice_fails_with_gits_words(work_in: Sandbox, base: BaseCommit) -> None:
    with pytest.raises(GitFailed, match="already exists"):
        clone_into_sandbox(work_in, base, BRANCH)


@pytest.mark.docker
@pytest.mark.parametrize("sandbox", ["docker"], indirect=True)
def test_a_100_mb_file_goes_in_and_comes_out(tmp_path: Path, repo: Path, sandbox: Sandbox) -> None:
    commit_files(repo, {"large": os.urandom(20 << 20) + bytes(80 << 20)})
    base = fetch_base(str(repo), store=tmp_path / "store")
    clone_into_sandbox(sandbox, base, BRANCH)
    inside(sandbox, "printf x >> large")

    work = taken(sandbox, base)

    assert work.diff_stat.files == 1
    assert len(work.diff) < 500
