"""Ready checks, run for real."""

from pathlib import Path

from contracts.run import NodeResult
from nodes.changes import commit_since, current_commit, head_hash, unchanged_from, unchanged_since
from nodes.checks import has_tools, work_tree_clean
from nodes.types import NodeFunction
from sandbox.scripted import ScriptedSandbox
from tests.support.git_repos import run_git
from tests.support.workspace import context, folder, put_repo


def run(work: NodeFunction, sandbox: ScriptedSandbox) -> NodeResult:
    return work(context(sandbox), sandbox)


def test_has_tools_finds_existing_tools(sandbox: ScriptedSandbox) -> None:
    assert run(has_tools("git", "sh"), sandbox).status == "success"


def test_has_tools_lists_all_missing_tools(sandbox: ScriptedSandbox) -> None:
    error = run(has_tools("git", "nope-1", "nope-2"), sandbox).error or ""
    assert error.startswith("not in the sandbox: nope-1, nope-2.")


def test_has_tools_explains_how_to_add_a_tool(sandbox: ScriptedSandbox) -> None:
    assert "--set packages=nope" in (run(has_tools("nope"), sandbox).error or "")


def test_has_tools_never_runs_a_name_as_shell(sandbox: ScriptedSandbox) -> None:
    run(has_tools("$(touch made)", "; touch made"), sandbox)
    assert not (folder(sandbox) / "made").exists()


def test_a_fresh_clone_is_clean(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox)
    assert run(work_tree_clean, sandbox).status == "success"


def test_a_new_file_makes_the_work_tree_unclean(sandbox: ScriptedSandbox) -> None:
    repo = put_repo(sandbox)
    (repo / "new.txt").write_text("new")
    assert "new.txt" in run(work_tree_clean, sandbox).output


def put_dos_lines(sandbox: ScriptedSandbox) -> Path:
    """A repository whose attributes would have a file's lines end otherwise than they do."""
    repo = put_repo(sandbox, {"dos.txt": "a\r\nb\r\n", "code.py": "a = 1\n"})
    (repo / ".gitattributes").write_text("*.txt text\n")
    run_git(repo, "add", ".gitattributes")
    run_git(repo, "commit", "--quiet", "--message", "Say how lines end")
    (repo / "dos.txt").touch()
    assert "dos.txt" in run_git(repo, "status", "--porcelain")
    return repo


def test_a_file_with_the_committed_bytes_counts_as_unchanged(sandbox: ScriptedSandbox) -> None:
    repo = put_dos_lines(sandbox)
    before = head_hash(sandbox)
    base = {"base": current_commit(context(sandbox), sandbox)}
    assert run(work_tree_clean, sandbox).status == "success"
    assert unchanged_since("base")(context(sandbox, results=base), sandbox).status == "success"
    assert unchanged_from(before, sandbox)
    (repo / "dos.txt").write_bytes(b"a\r\nc\r\n")
    assert run(work_tree_clean, sandbox).output == " M dos.txt"
    assert not unchanged_from(before, sandbox)


def test_commit_since_commits_only_changed_files(sandbox: ScriptedSandbox) -> None:
    repo = put_dos_lines(sandbox)
    base = {"base": current_commit(context(sandbox), sandbox)}
    commit = commit_since("base")
    assert commit(context(sandbox, results=base), sandbox).error == (
        "nothing was changed: there is nothing to commit"
    )
    (repo / "code.py").write_text("a = 2\n")
    assert commit(context(sandbox, results=base), sandbox).status == "success"
    assert run_git(repo, "diff", "--name-only", "HEAD~1", "HEAD") == "code.py"


def test_without_a_repository_the_check_fails_with_gits_error(
    sandbox: ScriptedSandbox,
) -> None:
    assert "not a git repository" in run(work_tree_clean, sandbox).output
