"""Node functions that run a command in the sandbox."""

import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contracts.errors import OptionInvalid
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Command, ExecResult, Sandbox
from nodes.types import NodeFunction

_SHELL_SYNTAX = re.compile(r"[|&;<>()$`*?\[\]{}~#!\n]|^\s*\w+=")


def command(
    *argv: str,
    cwd: str | None = None,
    timeout_s: float | None = None,
    env: Mapping[str, str] | None = None,
) -> NodeFunction:
    """Return a node function that runs `argv`. A failed command is a failed node.

    Raises (when the blueprint is loaded):
        TypeError: an argument is not a string, or the only argument is a whole command line.
    """
    if len(argv) == 1 and isinstance(argv[0], str) and len(argv[0].split()) > 1:
        parts = ", ".join(map(repr, argv[0].split()))
        raise TypeError(
            f"command({argv[0]!r}) names one program with spaces in its name: "
            f"use command({parts}), or shell(…) for a shell line"
        )
    return _Run(Command(argv=argv, cwd=cwd, timeout_s=timeout_s, env=env or {}))


@dataclass(frozen=True)
class _Run:
    """Runs a command. Equal commands are equal, so blueprints can be compared."""

    command: Command

    def __call__(self, _: RunContext, sandbox: Sandbox) -> NodeResult:
        return command_result(sandbox.exec(self.command), self.command.argv)


def shell(
    line: str,
    *,
    cwd: str | None = None,
    timeout_s: float | None = None,
    env: Mapping[str, str] | None = None,
) -> NodeFunction:
    """Return a node function that runs a line with `sh -c`. Never pass a model's text."""
    return command("sh", "-c", line, cwd=cwd, timeout_s=timeout_s, env=env)


def parse_command_line(line: str) -> tuple[str, ...]:
    """Return the argv for a line from a user, as in `--set test="pytest -q tests/unit"`.

    Plain words become the argv itself, so that a missing program is reported as such. A line with
    shell syntax (pipes, globs, variables, `A=b` in front) is passed to `sh -c`.

    Raises:
        OptionInvalid: the line is blank, or a quote is not closed.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise OptionInvalid(f"cannot read the command {line!r}: {error}") from error
    if not words or not words[0]:
        raise OptionInvalid(f"the command {line!r} is empty: it needs at least a program's name")
    return ("sh", "-c", line) if _SHELL_SYNTAX.search(line) else tuple(words)


def command_result(result: ExecResult, argv: Sequence[str]) -> NodeResult:
    """Return the node result of a command; the error names the command and the reason."""
    if result.ok:
        return NodeResult.success(result.text)
    return NodeResult.failure(f"{shlex.join(argv)!r} {_reason(result)}", result.text)


def _reason(result: ExecResult) -> str:
    too_many = ": the sandbox's limit of processes was reached" if result.out_of_processes else ""
    if result.launch_error is not None:
        return f"could not be started: {result.launch_error}"
    if result.timed_out:
        return f"timed out after {result.duration_ms / 1000:.1f} s{too_many}"
    if result.out_of_memory:
        return "was killed: the sandbox is out of memory"
    if result.out_of_disk:
        return "was killed: the sandbox is out of disk"
    ended = f"failed with exit code {result.exit_code}{too_many or _signal_name(result.exit_code)}"
    return f"{ended}, maybe by a command that ran at the same time" if result.disturbed else ended


def _signal_name(exit_code: int) -> str:
    try:
        return f": killed by {signal.Signals(exit_code - 128).name}"
    except ValueError:
        return ""
