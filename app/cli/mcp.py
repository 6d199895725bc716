"""`harness mcp`: the MCP servers whose tools agents may be given."""

import json
import shlex
from collections.abc import Mapping
from contextlib import AbstractContextManager
from time import monotonic
from typing import Annotated

import typer

from app.terminal.options import AsJson
from app.terminal.output import (
    print_json,
    print_line,
    print_message,
    print_result,
    print_table,
)
from contracts.errors import OptionInvalid
from flows.config.environment import config_file
from flows.config.mcp import McpServer, check_server
from flows.config.settings import load_settings
from flows.execution.mcp import OpenServer, named_server, open_server
from flows.execution.wiring import docker_engine
from nodes.text import one_line

app = typer.Typer(no_args_is_help=True)

UNDECLARED = "not declared: a person is asked"
_HAND = "by-hand"
"""Run id of servers that a person starts with these commands."""

Name = Annotated[str, typer.Argument(help="Name of a server in `harness mcp list`.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the servers of the settings."""
    found = load_settings().mcp
    if as_json:
        print_json([{"name": name, **_document(server)} for name, server in found.items()])
    elif not found:
        print_line("no MCP servers: `harness mcp add` adds one")
    else:
        rows = [
            (name, _target(server), ", ".join(server.egress) or "-", str(len(server.tools)))
            for name, server in found.items()
        ]
        print_table(("server", "command or URL", "may reach", "declared tools"), rows)


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Name of the new server, such as tracker.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(help="After --: program and arguments of a server on standard streams."),
    ] = None,
    url: Annotated[str, typer.Option(help="URL of a server that talks streamable HTTP.")] = "",
    packages: Annotated[
        list[str] | None,
        typer.Option(
            "--package",
            metavar="PACKAGE",
            help="Package in its image: npm:NAME@VERSION, pypi:NAME==VERSION, or Debian's.",
        ),
    ] = None,
    egress: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="Host that it may reach.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Variable of a command; '${NAME}' stands for one of yours."
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Header for a URL; '${NAME}' as for --env."),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(metavar="TOOL=EFFECT", help="What a tool does: read, write or egress."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add a server to `harness.toml`."""
    path, known = config_file(), load_settings().mcp
    if name in known:
        raise OptionInvalid(f"the MCP server {name!r} is in {path} already")
    table = {
        "command": command or [],
        "url": url,
        "packages": packages or [],
        "egress": egress or [],
        "env": _pairs("--env", env),
        "headers": _pairs("--header", header),
        "tools": _pairs("--tool", tool),
    }
    table = {key: value for key, value in table.items() if value}
    check_server(name, table)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(_as_toml(name, table))
    line = f"added {name} to {path}; `harness mcp tools {name}` lists its tools"
    print_result({"name": name, "file": str(path)}, line, as_json)


@app.command("test")
def test(name: Name, as_json: AsJson = False) -> None:
    """Start a server as a run would, ask for its tools, and stop it."""
    began = monotonic()
    with _open(name) as server:
        undeclared = [tool.name for tool in server.tools if tool.name not in server.effects]
        missing = sorted(server.effects.keys() - {tool.name for tool in server.tools})
        document = {
            "name": name,
            "tools": len(server.tools),
            "undeclared": undeclared,
            "missing": missing,
            "left_out": server.left_out,
            "seconds": round(monotonic() - began, 1),
        }
    line = f"{name} answers: {document['tools']} tools, {len(undeclared)} not declared, in "
    print_result(document, f"{line}{document['seconds']} s", as_json)
    if missing:
        print_message(f"declared, but the server has no such tool: {', '.join(missing)}")
    _print_left_out(server)


@app.command("tools")
def tools(name: Name, as_json: AsJson = False) -> None:
    """List the tools of a server, with what the settings say of each."""
    with _open(name) as server:
        found = [
            {
                "tool": tool.name,
                "allowed_tools": f"mcp({name}:{tool.name})",
                "effect": server.effects.get(tool.name),
                "description": tool.description,
                "parameters": tool.parameters,
            }
            for tool in server.tools
        ]
    if as_json:
        print_json(found)
    else:
        rows = [
            (tool.name, server.effects.get(tool.name) or UNDECLARED, one_line(tool.description, 70))
            for tool in server.tools
        ]
        print_table(("tool", "effect", "description"), rows)
    _print_left_out(server)


def _open(name: str) -> AbstractContextManager[OpenServer]:
    settings = load_settings()
    named_server(settings, name)
    return open_server(settings, name, docker_engine, run_id=_HAND, on_line=print_message)


def _print_left_out(server: OpenServer) -> None:
    for line in server.left_out:
        print_message(f"agents are not offered {line}")


def _pairs(option: str, entries: list[str] | None) -> dict[str, str]:
    pairs = dict(entry.partition("=")[::2] for entry in entries or [])
    for entry in entries or []:
        if "=" not in entry:
            raise OptionInvalid(f"{option} {entry!r}: give NAME=VALUE")
    return pairs


def _as_toml(name: str, table: Mapping[str, object]) -> str:
    """Return the table as TOML. A text or list of texts in JSON is one in TOML, too."""
    lines = [f"{key} = {_value(value)}" for key, value in table.items()]
    return "\n".join(["", f"[mcp.{name}]", *lines, ""])


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def _target(server: McpServer) -> str:
    return server.url or shlex.join(server.command)


def _document(server: McpServer) -> dict[str, object]:
    """Return a server's table; the values of variables and headers may be secrets."""
    hidden = {"env": sorted(server.env), "headers": sorted(server.headers)}
    return {**server.model_dump(mode="json"), **hidden}
