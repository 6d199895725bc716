"""Examples for the help of every command, from `examples.txt`."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import typer
from typer.models import CommandInfo, TyperInfo

_FILE = Path(__file__).with_name("examples.txt")


def add_examples(line: typer.Typer) -> None:
    """Add examples to the end of the help of each command and each group of commands."""
    for path, command in _commands(line, ()):
        command.epilog = _shown(path)


@cache
def all_examples() -> tuple[str, ...]:
    """Return the command lines of `examples.txt`."""
    return tuple(_FILE.read_text().splitlines())


def _shown(path: Sequence[str]) -> str | None:
    # Not shlex.split, which is slow: the words of commands have no quotes.
    found = [text for text in all_examples() if text.split()[1 : len(path) + 1] == list(path)]
    # \b keeps the lines apart, which would otherwise be one paragraph.
    return "\n".join(("\b\nExamples:", *(f"  {text}" for text in found[:2]))) if found else None


def _commands(
    line: typer.Typer, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], CommandInfo | TyperInfo]]:
    for command in line.registered_commands:
        yield (*path, str(command.name)), command
    for group in line.registered_groups:
        named = isinstance(group.name, str)
        inner = (*path, str(group.name)) if named else path
        if named:
            yield inner, group
        if group.typer_instance is not None:
            yield from _commands(group.typer_instance, inner)
