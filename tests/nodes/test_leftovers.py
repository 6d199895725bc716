"""What installs and tests write is no work of a run."""

from pathlib import Path

import pytest

from contracts.sandbox import EXCLUDES, Command
from nodes.projects.leftovers import exec_without_traces
from sandbox.scripted import ScriptedSandbox
from tests.support.git_repos import run_git
from tests.support.workspace import folder, put_repo, write


@pytest.fixture
def place(sandbox: ScriptedSandbox) -> Path:
    """A repository as a run finds it, with one tracked file."""
    made = put_repo(sandbox, {"hello.txt": "hello\n"})
    run_git(made, "config", "core.excludesFile", str(made / EXCLUDES))
    return made


def shown(place: Path) -> list[str]:
    """What git shows as changed."""
    listed = run_git(place, "status", "--porcelain", "--untracked-files=all")
    return [line.strip() for line in listed.splitlines()]


def run(line: str, sandbox: ScriptedSandbox) -> None:
    assert exec_without_traces(Command(argv=("sh", "-c", line)), sandbox).ok


@pytest.mark.parametrize(
    "line",
    [
        "touch new.o",
        "mkdir -p build/lib && touch build/lib/a.o 'build/odd [name]* '",
        "touch '#name' '!name' 'back\\slash'",
        "mkdir many && cd many && seq 600 | xargs touch",
        "echo other > hello.txt",
        "rm hello.txt",
    ],
)
def test_git_shows_nothing_of_what_a_build_wrote(
    line: str, place: Path, sandbox: ScriptedSandbox
) -> None:
    run(line, sandbox)
    assert shown(place) == []
    assert (place / "hello.txt").read_text() == "hello\n"


def test_what_was_changed_before_stays_a_change(place: Path, sandbox: ScriptedSandbox) -> None:
    write(sandbox, {"hello.txt": "agent\n", "made/new.py": "agent\n"})
    run("echo more >> hello.txt; echo more >> made/new.py; touch made/new.o", sandbox)
    assert shown(place) == ["M hello.txt", "?? made/new.py"]


def test_among_many_new_files_those_of_before_are_still_shown(
    place: Path, sandbox: ScriptedSandbox
) -> None:
    write(sandbox, {"out/mine.py": "agent\n"})
    run("cd out && seq 600 | xargs touch; mkdir ../all && cd ../all && touch a", sandbox)
    assert "?? out/mine.py" in shown(place)
    assert "?? all/a" not in shown(place)


def test_an_agent_may_change_what_an_earlier_build_wrote_without_an_error(
    place: Path, sandbox: ScriptedSandbox
) -> None:
    run("echo 1 > made.txt", sandbox)
    run("echo 2 > made2.txt", sandbox)
    assert shown(place) == []


def test_without_a_repository_a_command_just_runs(sandbox: ScriptedSandbox) -> None:
    run("touch a", sandbox)
    assert (folder(sandbox) / "a").exists()
