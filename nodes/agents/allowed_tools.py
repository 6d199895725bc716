"""Allowed tools: words that mean the same for every agent.

    read  write  edit  search  shell  shell(git diff*)  playbooks  mcp(tracker:get_issue)

A pattern in brackets must match the whole command line. `*` and `?` match any characters except
those by which a shell starts another command or opens a file, so `shell(git diff*)` allows
`git diff --stat` but not `git diff; rm -rf .`. Options of the program itself are not restricted.
`mcp(SERVER:TOOL)` allows a tool of an MCP server of the settings; in TOOL, `*` and `?` match any
characters. These tools are allowed only where they are named.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial

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
from nodes.agents.table import (
    MCP_WORD,
    PLAYBOOKS_WORD,
    agent_rows,
    host_tool_word,
    tool_word,
)

TOOL_WORDS = ("read", "write", "edit", "search", "shell", PLAYBOOKS_WORD)

_ENTRY = re.compile(r"(?P<word>\w+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_MCP_PATTERN = re.compile(r"(?P<server>[a-z][a-z0-9-]*):[\w*?-]+", re.ASCII)
_PLAIN = r"[^;&|<>$`()\n\r]"
_SHELL_CHARACTERS = "; & | < > $ ` ( ) and line breaks"


@dataclass(frozen=True)
class AllowedTools:
    """Allowed tools of a node.

    `commands` are patterns; the word "shell" allows any command. `mcp` are patterns such as
    `tracker:get_*`.
    """

    words: frozenset[str]
    commands: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = [word for word in TOOL_WORDS if word in self.words]
        patterns = [f"shell({one})" for one in self.commands] + [mcp_entry(one) for one in self.mcp]
        return ", ".join([*named, *patterns]) or "no tools"

    @property
    def mcp_servers(self) -> tuple[str, ...]:
        """The MCP servers that have an allowed tool."""
        return tuple(dict.fromkeys(pattern.partition(":")[0] for pattern in self.mcp))

    def allows(self, word: str) -> bool:
        """Return True if a tool with this word is allowed, whatever its arguments are."""
        return word in self.words or any(
            fnmatchcase(word, mcp_entry(pattern)) for pattern in self.mcp
        )

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
    patterns: dict[str, list[str]] = {"shell": [], MCP_WORD: []}
    for entry in allowed:
        word, pattern = _entry(entry)
        if pattern is None:
            words.add(word)
        else:
            patterns[word].append(pattern)
    return AllowedTools(frozenset(words), tuple(patterns["shell"]), tuple(patterns[MCP_WORD]))


def mcp_entry(pattern: str) -> str:
    """Return the entry of `allowed_tools` for a pattern of tools of an MCP server."""
    return f"{MCP_WORD}({pattern})"


def with_mcp_tools(allowed: Sequence[str] | None, patterns: Sequence[str]) -> Sequence[str] | None:
    """Return the allowed tools of a node, and those of MCP servers that match the patterns.

    Raises:
        BlueprintInvalid: a pattern is not `SERVER:TOOL`.
    """
    if not patterns:
        return allowed
    entries = tuple(map(mcp_entry, patterns))
    parse_allowed_tools(entries)
    return (*(TOOL_WORDS if allowed is None else allowed), *entries)


def allowed_native_tools(allowed: Sequence[str] | None) -> tuple[Tool, ...]:
    """Return the native tools that are at least partly allowed."""
    may = parse_allowed_tools(allowed)
    words = may.words | ({"shell"} if may.commands else set())
    return tuple(tool for tool in native_tools() if tool_word(NATIVE, tool.name) in words)


def allowed_tool_names(agent: str, allowed: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of an agent's own tools that are at least partly allowed."""
    may = parse_allowed_tools(allowed)
    words = may.words | ({"shell"} if may.commands else set())
    return tuple(name for name, word in agent_rows()[agent].tools.items() if word in words)


def offered_toolbox(toolbox: Toolbox | None, allowed: Sequence[str] | None) -> Toolbox | None:
    """Return the toolbox with the tools that the node allows; None if there are none."""
    may = parse_allowed_tools(allowed)
    words = ((tool, host_tool_word(tool.name)) for tool in (toolbox.tools if toolbox else ()))
    tools = tuple(tool for tool, word in words if word is not None and may.allows(word))
    return replace(toolbox, tools=tools) if toolbox and tools else None


def allowed_tools_guard(
    allowed: Sequence[str] | None,
    agent: str = NATIVE,
    tools: Mapping[str, str] | None = None,
) -> Guard:
    """Return a guard that denies every call of this agent that the allowed tools do not cover.

    `tools` are tools of the agent with their words; None: those of the table.

    Raises:
        BlueprintInvalid: an unknown agent or word, or a pattern for a word other than `shell`.
    """
    if tools is None:
        check_allowed_tools(agent, allowed)
    may = parse_allowed_tools(allowed)
    word = partial(tool_word, agent) if tools is None else tools.get
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
    if may.allows(word):
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
    if match is None or word not in (*TOOL_WORDS, MCP_WORD):
        raise BlueprintInvalid(
            f"unknown allowed tool {entry!r}; known: {', '.join(TOOL_WORDS)}, "
            "shell(<pattern>) such as 'shell(git diff*)', and mcp(<server>:<tool>)"
        )
    pattern = match["pattern"]
    if word == MCP_WORD:
        if pattern is None or not _MCP_PATTERN.fullmatch(pattern.strip()):
            raise BlueprintInvalid(
                f"{entry!r}: name a server and a tool, as in 'mcp(tracker:get_issue)' or "
                "'mcp(tracker:*)'"
            )
        return word, pattern.strip()
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
