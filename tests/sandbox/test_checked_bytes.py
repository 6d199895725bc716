"""What was checked is what comes out, byte by byte, whatever git was told in the sandbox."""

from pathlib import Path

import pytest

from contracts.run import DiffStat
from contracts.sandbox import Sandbox
from sandbox.repos import BaseCommit, fetch_base
from sandbox.workspace import clone_into_sandbox, collect_work
from tests.support.git_repos import commit_files, git_output, run_git
from tests.support.workspace_work import BRANCH, inside, taken

ODD = "o'd\"d \\ na\nme.txt"


@pytest.fixture
def dos_in(tmp_path: Path, repo: Path, sandbox: Sandbox) -> tuple[Sandbox, BaseCommit]:
    """A sandbox with text files put in whose lines do not end as their attributes would have it."""
    commit_files(repo, {"dos.txt": b"a\r\nb\r\n", "run.txt": b"a\r\n", ODD: b"a\r\n"})
    (repo / ".gitattributes").write_text("*.txt text\n")
    run_git(repo, "add", ".gitattributes")
    run_git(repo, "commit", "--quiet", "--message", "Say how lines end")
    base = fetch_base(str(repo), store=tmp_path / "store")
    clone_into_sandbox(sandbox, base, BRANCH)
    # As in a sandbox that goes on from a snapshot: git has to look into every file.
    inside(sandbox, "touch -d yesterday *.txt")
    return sandbox, base


def test_untouched_files_are_not_in_the_work_whatever_their_attributes(
    dos_in: tuple[Sandbox, BaseCommit],
) -> None:
    sandbox, base = dos_in
    assert collect_work(sandbox, base, BRANCH, message="Leftovers") is None
    inside(sandbox, "echo 'a = 2' > src/a.py; chmod +x run.txt")

    work = taken(sandbox, base)

    assert work.diff_stat == DiffStat(files=2, insertions=1, deletions=1)
    assert git_output(base.bare, "cat-file", "blob", f"{work.commit}:run.txt") == b"a\r\n"
    assert run_git(base.bare, "ls-tree", work.commit, "run.txt").startswith("100755 ")


@pytest.mark.parametrize(
    "line",
    [
        "printf 'a\\r\\nc\\r\\n' > dos.txt",
        "printf 'a\\nb\\n' > dos.txt",
        "git add --renormalize dos.txt",
        "ln -sf run.txt dos.txt",
    ],
)
def test_a_change_of_such_a_file_is_in_the_work(
    dos_in: tuple[Sandbox, BaseCommit], line: str
) -> None:
    sandbox, base = dos_in
    inside(sandbox, line)
    changed = run_git(base.bare, "diff", "--name-only", base.commit, taken(sandbox, base).commit)
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
def test_the_work_holds_the_bytes_that_were_tested(
    work_in: Sandbox, base: BaseCommit, line: str
) -> None:
    inside(work_in, line)
    work = taken(work_in, base)
    assert run_git(base.bare, "show", f"{work.commit}:src/a.py") == "a = 2"
    mode = run_git(base.bare, "ls-tree", work.commit, "src/a.py")[:6]
    assert mode == ("100755" if "chmod" in line else "100644")
    files = set(run_git(base.bare, "ls-tree", "-r", "--name-only", work.commit).split())
    assert files == {"hello.txt", "src/a.py", *(["far/b.py"] if "far" in line else [])}
    hidden = "not there when the work was checked, but in the branch as before: hello.txt"
    assert work.notices == ((hidden,) if "sparse" in line else ())


def test_line_ends_come_out_as_they_were_checked(work_in: Sandbox, base: BaseCommit) -> None:
    inside(work_in, "git config core.autocrlf input; printf 'a = 2\\r\\n' > src/a.py")
    shown = git_output(base.bare, "show", f"{taken(work_in, base).commit}:src/a.py")
    assert shown == b"a = 2\r\n"


def test_a_staged_file_that_git_ignores_is_in_the_work(work_in: Sandbox, base: BaseCommit) -> None:
    inside(work_in, "echo built > .gitignore; echo 1 > built; git add --force built")
    assert run_git(base.bare, "show", f"{taken(work_in, base).commit}:built") == "1"


def test_ignored_files_are_reported_and_junk_is_not(work_in: Sandbox, base: BaseCommit) -> None:
    inside(work_in, "printf 'local.py\n__pycache__/\nvar/\n' > .gitignore; mkdir -p p/__pycache__")
    inside(work_in, "touch local.py p/__pycache__/a.pyc; mkdir var; touch var/1 var/2 var/3 var/4")
    inside(work_in, "touch var/5; mkdir -p node_modules/x; touch node_modules/x/y new.py")
    [notice] = taken(work_in, base).notices
    assert notice.endswith("git ignores it: local.py, var/1, var/2, var/3, var/4, and 1 more")
