"""Count the files and functions of ours that a command executes, child processes included.

    python -m benchmarks.executed .venv/bin/harness memory list
    python -m benchmarks.executed --files .venv/bin/harness run fix-tests --model scripted/FILE

Functions count, not imports. Processes that were running before, such as a kept gateway, and
commands inside containers are not traced; every Python process that the command starts is.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

TRACER = Path(__file__).with_name("tracer")
ROOT = Path(__file__).parents[2]


class Executed(NamedTuple):
    """Functions of one file that were called, by qualified name."""

    file: str
    functions: frozenset[str]


def executed(argv: Sequence[str]) -> list[Executed]:
    """Run a command, its output passed on, and list what it executed, by file."""
    with TemporaryDirectory(prefix="harness-executed-") as folder:
        path = os.pathsep.join(filter(None, (str(TRACER), os.environ.get("PYTHONPATH"))))
        env = {**os.environ, "PYTHONPATH": path, "EXECUTED_TO": folder, "EXECUTED_IN": str(ROOT)}
        subprocess.run(argv, env=env, stdout=sys.stderr, check=False)
        lines = {line for part in Path(folder).iterdir() for line in part.read_text().splitlines()}
    found: dict[str, set[str]] = {}
    for line in lines:
        file, _, function = line.partition("\t")
        found.setdefault(file, set()).add(function)
    return [Executed(file, frozenset(names)) for file, names in sorted(found.items())]


def main() -> None:
    """Print the totals, with `--files` every file first."""
    listed = sys.argv[1:2] == ["--files"]
    argv = sys.argv[2:] if listed else sys.argv[1:]
    if not argv:
        sys.exit("executed: name a command to run, such as `harness memory list`")
    found = executed(argv)
    for one in found if listed else ():
        print(f"{len(one.functions):>4} {one.file}")
    print(f"{len(found)} files, {sum(len(one.functions) for one in found)} functions")


if __name__ == "__main__":
    main()
