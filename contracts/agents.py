"""Names of the built-in agents. The settings may name more: `nodes.agents.table.agent_rows`."""

from typing import Final, Literal, get_args

NATIVE: Final = "native"
"""The built-in agent: a loop on the host. Nodes use it unless they or the run name another."""

CliAgent = Literal["claude-code", "pi", "opencode", "codex", "qwen-code", "gemini", "goose"]
AgentName = Literal["native", CliAgent]

AGENTS: tuple[str, ...] = get_args(AgentName)
"""All built-in agents."""

CLI_AGENTS: frozenset[str] = frozenset(get_args(CliAgent))
"""Agents that are programs inside the sandbox."""
