"""In as a bundle, out as a bundle; whatever the agent did to `.git`, the host runs none of it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.errors import GitFailed, WorkRefused
from contracts.run import DiffStat
from contracts.sandbox import Command, Sandbox
from sandbox.branches import publish
from sandbox.container import DockerSandbox
from sandbox.diffs import DIFF_LIMIT, diff
from sandbox.engine import Engine
from sandbox.flags import SandboxSpec
from sandbox.git import git, git_text
from sandbox.images import ensure_base
from sandbox.repos import Base, open_repo
from sandbox.scripted import ScriptedSandbox
from sandbox.workspace import Work, put_in, take_out
from tests.sandbox.git_repos import commit_files, make_repo, run_git

BRANCH = "harness/r-1/fix-tests"


@pytest.fixture(params=["scripted", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    sandbox = _docker_sandbox() if request.param == "docker" else ScriptedSandbox()
    yield sandbox
    sandbox.teardown()


def _docker_sandbox() -> Sandbox:
    engine = Engine()
    image = ensure_base(engine, print)
    spec = SandboxSpec(image=image, owner="test-workspace", run_id="r-1", ttl_s=300)
    return DockerSandbox.start(engine, spec)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "shop", {"hello.txt": b"hello\n", "src/a.py": b"a = 1\n"})


@pytest.fixture
def base(tmp_path: Path, repo: Path) -> Base:
    return open_repo(str(repo), store=tmp_path / "store")


def inside(sandbox: Sandbox, line: str) -> str:
    """Run a shell line in the workspace, as an agent would; it must succeed."""
    result = sandbox.exec(Command(argv=("sh", "-c", line)))
    assert result.ok, result.text
    return result.stdout.decode().strip()


@pytest.fixture
def work_in(sandbox: Sandbox, base: Base) -> Sandbox:
    """A sandbox with the base commit put in."""
    put_in(sandbox, base, BRANCH)
    return sandbox


def taken(sandbox: Sandbox, base: Base) -> Work:
    work = take_out(sandbox, base, BRANCH, message="Leftovers")
    assert work is not None
    return work


def test_the_clone_is_on_its_branch_with_an_identity_and_leads_nowhere(
    work_in: Sandbox, base: Base
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

    base = open_repo(str(repo), store=tmp_path / "store")
    put_in(sandbox, base, BRANCH)

    assert inside(sandbox, "git status --porcelain") == ""
    assert inside(sandbox, "cat caf*") == "4"
    assert inside(sandbox, "test -x run.sh && readlink link") == "hello.txt"
    assert sandbox.read_file("line\nbreak") == b"\0\xff"


def test_nothing_changed_gives_no_work(work_in: Sandbox, base: Base) -> None:
    assert take_out(work_in, base, BRANCH, message="Leftovers") is None


def test_commits_and_leftovers_come_out_with_diff_and_count(work_in: Sandbox, base: Base) -> None:
    inside(work_in, "echo two >> hello.txt && git commit -qam 'By hand'")
    inside(work_in, "printf 'x\\ny\\n' > new.txt; rm src/a.py")

    work = taken(work_in, base)

    assert work.diff_stat == DiffStat(files=3, insertions=3, deletions=1)
    assert "+++ b/new.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n" in work.diff
    log = git_text("log", "--format=%an|%s", f"{base.commit}..{work.commit}", at=base.bare)
    assert log == "Harness|Leftovers\nHarness|By hand"
    assert work.notices == ()


def test_what_tests_leave_behind_is_no_work(work_in: Sandbox, base: Base) -> None:
    inside(work_in, "mkdir -p src/__pycache__ .venv/bin a.egg-info node_modules/x .pytest_cache")
    inside(work_in, "touch src/__pycache__/a.pyc .venv/bin/p a.egg-info/x node_modules/x/y")

    assert take_out(work_in, base, BRANCH, message="Leftovers") is None


ODD = "o'd\"d \\ na\nme.txt"


@pytest.fixture
def dos_in(tmp_path: Path, repo: Path, sandbox: Sandbox) -> tuple[Sandbox, Base]:
    """A sandbox with text files put in whose lines do not end as their attributes would have it."""
    commit_files(repo, {"dos.txt": b"a\r\nb\r\n", "run.txt": b"a\r\n", ODD: b"a\r\n"})
    (repo / ".gitattributes").write_text("*.txt text\n")
    run_git(repo, "add", ".gitattributes")
    run_git(repo, "commit", "--quiet", "--message", "Say how lines end")
    base = open_repo(str(repo), store=tmp_path / "store")
    put_in(sandbox, base, BRANCH)
    # As in a sandbox that goes on from a snapshot: git has to look into every file.
    inside(sandbox, "touch -d yesterday *.txt")
    return sandbox, base


def test_files_nobody_touched_are_not_in_the_work_whatever_their_attributes_say(
    dos_in: tuple[Sandbox, Base],
) -> None:
    sandbox, base = dos_in
    assert take_out(sandbox, base, BRANCH, message="Leftovers") is None
    inside(sandbox, "echo 'a = 2' > src/a.py; chmod +x run.txt")

    work = taken(sandbox, base)

    assert work.diff_stat == DiffStat(files=2, insertions=1, deletions=1)
    assert git("cat-file", "blob", f"{work.commit}:run.txt", at=base.bare) == b"a\r\n"
    assert git_text("ls-tree", work.commit, "run.txt", at=base.bare).startswith("100755 ")


@pytest.mark.parametrize(
    "line",
    [
        "printf 'a\\r\\nc\\r\\n' > dos.txt",
        "printf 'a\\nb\\n' > dos.txt",
        "git add --renormalize dos.txt",
        "ln -sf run.txt dos.txt",
    ],
)
def test_a_change_of_such_a_file_is_in_the_work(dos_in: tuple[Sandbox, Base], line: str) -> None:
    sandbox, base = dos_in
    inside(sandbox, line)
    changed = git_text(
        "diff", "--name-only", base.commit, taken(sandbox, base).commit, at=base.bare
    )
    assert changed == "dos.txt"


FORGED = """if True:
    import hashlib, subprocess
    git = lambda *args, **given: bytes.fromhex(
        subprocess.run(("git", *args), capture_output=True, **given).stdout.strip().decode()
    )
    true, false = git("rev-parse", ":src/a.py"), git("hash-object", "-w", "--stdin", input=b"666")
    index = open(".git/index", "rb").read()[:-20].replace(true, false)
    open(".git/index", "wb").write(index + hashlib.sha1(index).digest())
"""
"""An index that says of a file, at which nobody has written since, that it holds something else."""


@pytest.mark.parametrize(
    "line",
    [
        "git update-index --skip-worktree src/a.py && echo 'a = 2' > src/a.py",
        "git update-index --assume-unchanged src/a.py && echo 'a = 2' > src/a.py",
        "git sparse-checkout set --no-cone /src && echo 'a = 2' > src/a.py && "
        "mkdir far && echo x > far/b.py",
        "echo '*.py filter=x' > .git/info/attributes; git config filter.x.clean 'sed s/2/1/'; "
        "echo 'a = 2' > src/a.py",
        "git config core.fileMode false; echo 'a = 2' > src/a.py; chmod +x src/a.py",
        "echo '*.py filter=x' > .git/at; git config core.attributesFile .git/at; "
        "git config filter.x.clean 'sed s/2/1/'; echo 'a = 2' > src/a.py",
        "git config core.ignoreStat true; git add .; echo 'a = 2' > src/a.py",
        f"echo 'a = 2' > src/a.py; git add src/a.py; sleep 1.1; python3 -c '{FORGED}'",
    ],
)
def test_what_was_checked_is_what_comes_out(work_in: Sandbox, base: Base, line: str) -> None:
    inside(work_in, line)
    work = taken(work_in, base)
    assert git_text("show", f"{work.commit}:src/a.py", at=base.bare) == "a = 2"
    mode = git_text("ls-tree", work.commit, "src/a.py", at=base.bare)[:6]
    assert mode == ("100755" if "chmod" in line else "100644")
    files = set(git_text("ls-tree", "-r", "--name-only", work.commit, at=base.bare).split())
    assert files == {"hello.txt", "src/a.py", *(["far/b.py"] if "far" in line else [])}
    hidden = "not there when the work was checked, but in the branch as before: hello.txt"
    assert work.notices == ((hidden,) if "sparse" in line else ())


def test_line_ends_come_out_as_they_were_checked(work_in: Sandbox, base: Base) -> None:
    inside(work_in, "git config core.autocrlf input; printf 'a = 2\\r\\n' > src/a.py")
    shown = git("show", f"{taken(work_in, base).commit}:src/a.py", at=base.bare)
    assert shown == b"a = 2\r\n"


def test_what_is_staged_though_git_ignores_it_comes_out(work_in: Sandbox, base: Base) -> None:
    inside(work_in, "echo built > .gitignore; echo 1 > built; git add --force built")
    assert git_text("show", f"{taken(work_in, base).commit}:built", at=base.bare) == "1"


def test_what_git_ignores_is_told_and_junk_is_not(work_in: Sandbox, base: Base) -> None:
    inside(work_in, "printf 'local.py\n__pycache__/\nvar/\n' > .gitignore; mkdir -p p/__pycache__")
    inside(work_in, "touch local.py p/__pycache__/a.pyc; mkdir var; touch var/1 var/2 var/3 var/4")
    inside(work_in, "touch var/5; mkdir -p node_modules/x; touch node_modules/x/y new.py")
    [notice] = taken(work_in, base).notices
    assert notice.endswith("git ignores it: local.py, var/1, var/2, var/3, var/4, and 1 more")


@pytest.mark.parametrize("message", ["x" * 200_000, "a\0b", "\ud800", ""])
def test_no_message_keeps_the_work_from_coming_out(
    work_in: Sandbox, base: Base, message: str
) -> None:
    inside(work_in, "echo two >> hello.txt")
    work = take_out(work_in, base, BRANCH, message=message)
    assert work is not None
    assert work.diff_stat.files == 1


def test_a_binary_file_is_named_and_a_long_diff_is_cut(work_in: Sandbox, base: Base) -> None:
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
def test_what_head_holds_is_the_work_however_git_was_left(
    work_in: Sandbox, base: Base, line: str
) -> None:
    inside(work_in, line)

    work = taken(work_in, base)

    assert git_text("cat-file", "blob", f"{work.commit}:f", at=base.bare) == "2"
    assert git_text("rev-parse", BRANCH, at=base.bare) == work.commit
    assert git_text("rev-parse", f"{work.commit}^", at=base.bare) == base.commit


def test_rewritten_history_comes_out_and_is_said(work_in: Sandbox, base: Base) -> None:
    inside(work_in, "git checkout -q --orphan fresh && git commit -qm 'All new'")

    assert taken(work_in, base).notices == (
        f"history was rewritten: the work does not stand on {base.commit[:7]}",
    )


def test_a_repository_within_the_work_is_said(work_in: Sandbox, base: Base) -> None:
    inside(
        work_in,
        "git init -q sub && cd sub && git -c user.name=x -c user.email=x "
        "commit -q --allow-empty -m x && echo 1 > f",
    )
    inside(work_in, "git init -q bare-bones; echo 1 > kept.txt")

    first, second = taken(work_in, base).notices

    assert "'bare-bones/' does not have a commit checked out" in first
    assert second.startswith("a directory of the work is a git repository itself")
    assert git_text("cat-file", "blob", f"{BRANCH}:kept.txt", at=base.bare) == "1"


def test_a_shallow_source_goes_in_comes_out_and_is_published(
    tmp_path: Path, repo: Path, sandbox: Sandbox
) -> None:
    commit_files(repo, {"b": b"b"})
    run_git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repo}", "thin")
    base = open_repo(str(tmp_path / "thin"), store=tmp_path / "store")
    put_in(sandbox, base, BRANCH)
    inside(sandbox, "echo 2 > f")

    work = taken(sandbox, base)

    publish(base, BRANCH, work.commit)
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
    tmp_path: Path, repo: Path, work_in: Sandbox, base: Base
) -> None:
    canary = tmp_path / "canary"
    inside(work_in, "echo 2 > f; git add f; git commit -qm two")
    inside(work_in, canary_commands(canary))
    work = taken(work_in, base)
    canary.unlink(missing_ok=True)  # inside, the agent may run what it likes

    publish(base, BRANCH, work.commit)
    diff(base, work.commit)

    assert not canary.exists()
    assert "filter=x" in run_git(repo, "show", f"{BRANCH}:.gitattributes")


def test_a_symlink_out_of_the_repository_is_carried_and_not_followed(
    work_in: Sandbox, base: Base
) -> None:
    inside(work_in, "ln -s /etc/passwd stolen; ln -s /etc .config")

    work = taken(work_in, base)

    assert git("cat-file", "blob", f"{work.commit}:stolen", at=base.bare) == b"/etc/passwd"
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
def test_a_git_that_is_gone_is_refused_with_one_line(
    tmp_path: Path, repo: Path, sandbox: Sandbox, line: str, says: str
) -> None:
    commit_files(repo, {"second": b"2"})
    base = open_repo(str(repo), store=tmp_path / "store")
    put_in(sandbox, base, BRANCH)
    inside(sandbox, line)

    with pytest.raises(WorkRefused, match=says) as error:
        take_out(sandbox, base, BRANCH, message="Leftovers")

    assert "\n" not in str(error.value)


def test_work_over_the_limit_is_refused(
    work_in: Sandbox, base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.workspace.WORK_LIMIT", 10_000)
    inside(work_in, "head -c 100000 /dev/urandom > big")

    with pytest.raises(WorkRefused, match="over the limit of 10000"):
        take_out(work_in, base, BRANCH, message="Leftovers")


def test_putting_in_twice_fails_with_gits_words(work_in: Sandbox, base: Base) -> None:
    with pytest.raises(GitFailed, match="already exists"):
        put_in(work_in, base, BRANCH)


@pytest.mark.docker
@pytest.mark.parametrize("sandbox", ["docker"], indirect=True)
def test_a_100_mb_file_goes_in_and_comes_out(tmp_path: Path, repo: Path, sandbox: Sandbox) -> None:
    commit_files(repo, {"large": os.urandom(20 << 20) + bytes(80 << 20)})
    base = open_repo(str(repo), store=tmp_path / "store")
    put_in(sandbox, base, BRANCH)
    inside(sandbox, "printf x >> large")

    work = taken(sandbox, base)

    assert work.diff_stat.files == 1
    assert len(work.diff) < 500
