"""The agents that there are, by name."""

from typing import Final, Literal, get_args

NATIVE: Final = "native"
"""Our own loop, on the host. It does what names no other agent."""

CliAgent = Literal["claude-code", "pi"]
AgentName = Literal["native", CliAgent]

AGENTS: tuple[str, ...] = get_args(AgentName)
"""Agents that can be asked for."""

CLI_AGENTS: frozenset[str] = frozenset(get_args(CliAgent))
"""Those that are programs in the sandbox."""
