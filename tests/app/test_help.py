"""The help of every command."""

import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache

import pytest
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from app.cli.help import all_examples
from app.cli.main import COMMANDS, command_line
from contracts.agents import AGENTS
from tests.support.app import harness_argv

LINE = command_line(*COMMANDS)


def commands(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from commands(inner, (*path, name))


ROOT = get_command(LINE)
PATHS = list(commands(ROOT))


def find(words: Sequence[str]) -> tuple[TyperCommand | TyperGroup, list[str]]:
    """The command that these words name, and the words that are left for it."""
    command: object = ROOT
    left = list(words)
    while isinstance(command, TyperGroup) and left and left[0] in command.commands:
        command = command.commands[left.pop(0)]
    assert isinstance(command, TyperCommand | TyperGroup)
    return command, left


@cache
def shown(path: tuple[str, ...]) -> str:
    return " ".join(CliRunner().invoke(LINE, [*path, "--help"]).output.split())


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_the_help_of_every_command_shows_every_word_of_its_texts(path: tuple[str, ...]) -> None:
    command, _ = find(path)
    helps = [getattr(one, "help", None) for one in command.params if not getattr(one, "hidden", 0)]
    said = shown(path).replace("- ", "-")  # words may be broken after a hyphen
    for text in filter(None, [*helps, command.help]):
        assert " ".join(text.split()).replace("- ", "-") in said


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_the_help_of_every_command_ends_with_two_examples(path: tuple[str, ...]) -> None:
    assert shown(path).count(" ".join(("harness", *path))) >= 2
    assert "Examples: harness" in shown(path)


@pytest.mark.parametrize("example", all_examples())
def test_every_example_is_a_valid_command_line(example: str) -> None:
    command, left = find(shlex.split(example)[1:])
    assert not isinstance(command, TyperGroup)
    command.make_context(example, left)


def test_the_help_of_run_names_the_agents() -> None:
    assert all(agent in shown(("run",)) for agent in AGENTS)


def test_the_version_is_printed() -> None:
    done = subprocess.run(harness_argv("--version"), capture_output=True, text=True, check=True)
    assert done.stdout.startswith("harness ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_options_of_a_command(shell: str) -> None:
    env = {
        **os.environ,
        "_HARNESS_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "harness run --re",
        "COMP_CWORD": "2",
        "_TYPER_COMPLETE_ARGS": "harness run --re",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(harness_argv(), env=env, capture_output=True, text=True, check=False)
    assert "--repo" in done.stdout
    assert "--ref" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_completes(shell: str) -> None:
    env = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    argv = harness_argv("--show-completion", shell)
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert "_HARNESS_COMPLETE" in done.stdout
