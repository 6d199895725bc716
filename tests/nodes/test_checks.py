"""Ready checks, run for real."""

from contracts.run import NodeResult
from nodes.checks import has_tools, work_tree_clean
from nodes.types import Work
from sandbox.scripted import ScriptedSandbox
from tests.nodes.workspace import context, folder, put_repo


def run(work: Work, sandbox: ScriptedSandbox) -> NodeResult:
    return work(context(sandbox), sandbox)


def test_tools_that_are_there_are_found(sandbox: ScriptedSandbox) -> None:
    assert run(has_tools("git", "sh"), sandbox).status == "success"


def test_all_missing_tools_are_named(sandbox: ScriptedSandbox) -> None:
    error = run(has_tools("git", "nope-1", "nope-2"), sandbox).error or ""
    assert error.startswith("not in the sandbox: nope-1, nope-2.")


def test_a_missing_tool_is_told_with_what_to_do(sandbox: ScriptedSandbox) -> None:
    assert "sandbox image" in (run(has_tools("nope"), sandbox).error or "")


def test_a_tools_name_is_never_run_as_shell(sandbox: ScriptedSandbox) -> None:
    run(has_tools("$(touch made)", "; touch made"), sandbox)
    assert not (folder(sandbox) / "made").exists()


def test_a_fresh_clone_is_clean(sandbox: ScriptedSandbox) -> None:
    put_repo(sandbox)
    assert run(work_tree_clean, sandbox).status == "success"


def test_a_new_file_makes_the_work_tree_unclean(sandbox: ScriptedSandbox) -> None:
    repo = put_repo(sandbox)
    (repo / "new.txt").write_text("new")
    assert "new.txt" in run(work_tree_clean, sandbox).output


def test_where_there_is_no_repository_the_check_fails_with_gits_words(
    sandbox: ScriptedSandbox,
) -> None:
    assert "not a git repository" in run(work_tree_clean, sandbox).output
