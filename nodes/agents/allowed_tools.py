"""Allowed tools: words that mean the same for every agent.

    read  write  edit  search  shell  shell(git diff*)  playbooks

A pattern in brackets must match the whole command line. `*` and `?` match any characters except
those by which a shell starts another command or opens a file, so `shell(git diff*)` allows
`git diff --stat` but not `git diff; rm -rf .`. Options of the program itself are not restricted.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from contracts.agents import NATIVE
from contracts.errors import BlueprintInvalid
from contracts.json import as_mapping
from contracts.tool import (
    Allowed,
    Decision,
    Denied,
    Guard,
    Tool,
    Toolbox,
    ToolCall,
)
from nodes.agents.native_tools import Bash, CallMalformed, native_tools, parse_call
from nodes.agents.table import PLAYBOOKS_WORD, agent_rows, agent_tools

TOOL_WORDS = ("read", "write", "edit", "search", "shell", PLAYBOOKS_WORD)

_ENTRY = re.compile(r"(?P<word>\w+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_PLAIN = r"[^;&|<>$`()\n\r]"
_SHELL_CHARACTERS = "; & | < > $ ` ( ) and line breaks"


@dataclass(frozen=True)
class AllowedTools:
    """Allowed tools of a node. `commands` are patterns; the word "shell" allows any command."""

    words: frozenset[str]
    commands: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = [word for word in TOOL_WORDS if word in self.words]
        return ", ".join([*named, *(f"shell({c})" for c in self.commands)]) or "no tools"

    def allows_command(self, command: str) -> bool:
        """Return True if any command is allowed, or if a pattern matches the whole command."""
        return "shell" in self.words or any(
            _regex(pattern).fullmatch(command.strip()) for pattern in self.commands
        )


def parse_allowed_tools(allowed: Sequence[str] | None) -> AllowedTools:
    """Parse the allowed tools of a node. None allows all tools, an empty list none.

    Raises:
        BlueprintInvalid: an unknown word, or a pattern for a word other than `shell`.
    """
    if allowed is None:
        return AllowedTools(frozenset(TOOL_WORDS))
    words: set[str] = set()
    commands: list[str] = []
    for entry in allowed:
        word, pattern = _entry(entry)
        if pattern is None:
            words.add(word)
        else:
            commands.append(pattern)
    return AllowedTools(frozenset(words), tuple(commands))


def allowed_native_tools(allowed: Sequence[str] | None) -> tuple[Tool, ...]:
    """Return the native tools that are at least partly allowed."""
    may = parse_allowed_tools(allowed)
    words = may.words | ({"shell"} if may.commands else set())
    return tuple(tool for tool in native_tools() if agent_tools(NATIVE)[tool.name] in words)


def allowed_tool_names(agent: str, allowed: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of an agent's own tools that are at least partly allowed."""
    may = parse_allowed_tools(allowed)
    words = may.words - {PLAYBOOKS_WORD} | ({"shell"} if may.commands else set())
    return tuple(name for name, word in agent_tools(agent).items() if word in words)


def offered_tools(toolbox: Toolbox | None, allowed: Sequence[str] | None) -> tuple[Tool, ...]:
    """Return the toolbox's tools if the node allows them."""
    if toolbox is None or PLAYBOOKS_WORD not in parse_allowed_tools(allowed).words:
        return ()
    return toolbox.tools


def allowed_tools_guard(
    allowed: Sequence[str] | None,
    agent: str = NATIVE,
    tools: Mapping[str, str] | None = None,
) -> Guard:
    """Return a guard that denies every call of this agent that the allowed tools do not cover.

    `tools` are the agent's tools with their words; None: those of the table.

    Raises:
        BlueprintInvalid: an unknown agent or word, or a pattern for a word other than `shell`.
    """
    if tools is None:
        check_allowed_tools(agent, allowed)
        tools = agent_tools(agent)
    may, word = parse_allowed_tools(allowed), tools.get
    command = _native_command if agent == NATIVE else _plain_command
    return lambda call: _decide(may, call, word(call.name), command)


def check_allowed_tools(agent: str, allowed: Sequence[str] | None) -> None:
    """Check the agent's name and its allowed tools before a run starts.

    The gateway's guard enforces them for every agent; some agents enforce them, too.

    Raises:
        BlueprintInvalid: an unknown agent or word, or a pattern for a word other than `shell`.
    """
    if agent not in agent_rows():
        raise BlueprintInvalid(f"unknown agent {agent!r}; known: {', '.join(agent_rows())}")
    parse_allowed_tools(allowed)


_Command = Callable[[ToolCall], str]


def _decide(may: AllowedTools, call: ToolCall, word: str | None, command: _Command) -> Decision:
    if word is None:
        return Denied(reason=f"no rule for {call.name!r}; allowed here: {may}")
    if word in may.words:
        return Allowed()
    if word != "shell" or not may.commands:
        return Denied(reason=f"{call.name} is not allowed here; allowed: {may}")
    try:
        if may.allows_command(command(call)):
            return Allowed()
    except CallMalformed as error:
        return Denied(reason=str(error))
    return Denied(
        reason=f"this command is not allowed here; allowed: {may}. "
        f"Write one plain command without {_SHELL_CHARACTERS}"
    )


def _native_command(call: ToolCall) -> str:
    args = parse_call(call)
    return args.command if isinstance(args, Bash) else ""


def _plain_command(call: ToolCall) -> str:
    """Return the command of another agent's shell tool."""
    try:
        arguments = json.loads(call.arguments)  # the last of two equal keys wins, as in JavaScript
    except (ValueError, RecursionError) as error:
        raise CallMalformed(f"bad arguments for {call.name}: {error}") from error
    found = [as_mapping(arguments).get(key) for key in ("command", "cmd")]
    commands = [command for command in found if isinstance(command, str)]
    if len(commands) != 1:  # with two, the agent might run the other one
        raise CallMalformed(f"bad arguments for {call.name}: {len(commands)} commands in them")
    return commands[0]


def _entry(entry: str) -> tuple[str, str | None]:
    match = _ENTRY.fullmatch(entry.strip())
    word = match["word"] if match else entry
    if match is None or word not in TOOL_WORDS:
        raise BlueprintInvalid(
            f"unknown allowed tool {entry!r}; known: {', '.join(TOOL_WORDS)}, "
            "and shell(<pattern>) such as 'shell(git diff*)'"
        )
    pattern = match["pattern"]
    if pattern is not None and word != "shell":
        raise BlueprintInvalid(f"{entry!r}: only shell takes a pattern, {word} is all or nothing")
    if pattern is not None and not pattern.strip():
        raise BlueprintInvalid(f"{entry!r}: the pattern is empty; write 'shell' for every command")
    return word, pattern


def _regex(pattern: str) -> re.Pattern[str]:
    """Return the pattern as a regular expression that matches in linear time.

    Each `*` but the last matches as little as possible; the atomic group `(?>…)` keeps it from
    backtracking, which loses no match.
    """
    first, *parts = (_literal(part) for part in pattern.strip().split("*"))
    between = "".join(f"(?>{_PLAIN}*?{part})" for part in parts[:-1])
    return re.compile(first + between + "".join(f"{_PLAIN}*{part}" for part in parts[-1:]))


def _literal(part: str) -> str:
    return "".join(_PLAIN if char == "?" else re.escape(char) for char in part)
