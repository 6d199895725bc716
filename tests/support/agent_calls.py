"""Scripted replies in each agent's own words."""

from collections.abc import Mapping

NAMES: Mapping[str, Mapping[str, str]] = {
    "claude-code": {"shell": "Bash", "read": "Read", "write": "Write", "edit": "Edit"},
    "pi": {"shell": "bash", "read": "read", "write": "write", "edit": "edit"},
    "opencode": {"shell": "bash", "read": "read", "write": "write", "edit": "edit"},
    "native": {"shell": "bash", "read": "read_file", "write": "write_file", "edit": "edit_file"},
}


def shell(agent: str, command: str) -> dict[str, object]:
    """A call of the agent's shell tool."""
    return call(NAMES[agent]["shell"], {"command": command})


def write(agent: str, path: str, content: str) -> dict[str, object]:
    """A call of the agent's tool that writes a file."""
    place = {"claude-code": "file_path", "opencode": "filePath"}.get(agent, "path")
    return call(NAMES[agent]["write"], {place: path, "content": content})


def reply(text: str, *calls: dict[str, object], cost_usd: float = 0.001) -> dict[str, object]:
    """One reply, of 900 tokens in and 20 out."""
    usage = {"input": 900, "output": 20, "cache_read": 50, "cost_usd": cost_usd}
    return {"content": text, "usage": usage, **({"tool_calls": list(calls)} if calls else {})}


def call(name: str, arguments: object) -> dict[str, object]:
    """Any call."""
    return {"function": {"name": name, "arguments": arguments}}
