"""Scripted replies in each agent's own words."""

from collections.abc import Mapping
from pathlib import Path

OWN_AGENT = "claude-acp"
"""The agent that the documentation adds by settings."""

NAMES: Mapping[str, Mapping[str, str]] = {
    "claude-code": {"shell": "Bash", "read": "Read", "write": "Write", "edit": "Edit"},
    OWN_AGENT: {"shell": "Bash", "read": "Read", "write": "Write", "edit": "Edit"},
    "pi": {"shell": "bash", "read": "read", "write": "write", "edit": "edit"},
    "opencode": {"shell": "bash", "read": "read", "write": "write", "edit": "edit"},
    "qwen-code": {
        "shell": "run_shell_command",
        "read": "read_file",
        "write": "write_file",
        "edit": "edit",
    },
    "gemini": {
        "shell": "run_shell_command",
        "read": "read_file",
        "write": "write_file",
        "edit": "replace",
    },
    "codex": {"shell": "exec_command"},
    "goose": {"shell": "shell", "write": "write", "edit": "edit"},
    "native": {"shell": "bash", "read": "read_file", "write": "write_file", "edit": "edit_file"},
}


_PLACES = {
    "claude-code": "file_path",
    "opencode": "filePath",
    "qwen-code": "file_path",
    "gemini": "file_path",
}


def own_agent_settings() -> str:
    """The settings with this agent, as the documentation has them."""
    page = Path("docs/how-to/agents.md").read_text()
    return page.partition("```toml\n")[2].partition("```")[0]


def shell(agent: str, command: str) -> dict[str, object]:
    """A call of the agent's shell tool."""
    argument = "cmd" if agent == "codex" else "command"
    return call(NAMES[agent]["shell"], {argument: command})


def write(agent: str, path: str, content: str) -> dict[str, object]:
    """A call of the agent's tool that writes a file, or of the shell if it has none."""
    if "write" not in NAMES[agent]:
        return shell(agent, f"printf %s '{content}' > {path}")
    place = _PLACES.get(agent, "path")
    return call(NAMES[agent]["write"], {place: path, "content": content})


def reply(text: str, *calls: dict[str, object], cost_usd: float = 0.001) -> dict[str, object]:
    """One reply, of 900 tokens in and 20 out."""
    usage = {"input": 900, "output": 20, "cache_read": 50, "cost_usd": cost_usd}
    return {"content": text, "usage": usage, **({"tool_calls": list(calls)} if calls else {})}


def call(name: str, arguments: object) -> dict[str, object]:
    """Any call."""
    return {"function": {"name": name, "arguments": arguments}}
