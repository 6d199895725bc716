"""Starts the MCP servers of the settings.

A server's command runs in a sandbox of its own, with the hosts and the variables that its table
names. Names, descriptions and results come from the server: they are bounded, and untrusted.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from contracts.errors import McpUnavailable, OptionInvalid, SecretMissing
from contracts.json import Json
from contracts.tool import Effect, Tool
from flows.config.environment import environment
from flows.config.mcp import McpServer
from flows.config.memory import expand_variables, unset_variables
from flows.config.settings import Settings
from flows.execution.dependencies import Tell
from flows.execution.egress import open_way_out
from flows.execution.sandboxes import EgressLog
from flows.runs.home import EGRESS, home_owner
from flows.runs.request import ResolvedRequest
from nodes.text import make_redactor, one_line, strip_control_characters, truncate_middle
from providers.mcp_client import McpClient, McpResult, socket_client, url_client
from sandbox.container import DockerSandbox
from sandbox.egress import OnEvent
from sandbox.engine import DockerEngine
from sandbox.images import ensure_image, mcp_recipe
from sandbox.spec import SandboxSpec
from sandbox.stdio_server import StdioServer, stdio_server

MAX_TOOLS = 100
"""Tools of one server that agents are offered."""

MAX_NAME = 48
"""Characters of `SERVER__TOOL`: with what agents put before it, a name may have 64."""

_MAX_DESCRIPTION = 2_000
_MAX_SCHEMA = 20_000
_NAME = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True)
class OpenServer:
    """A running server, its usable tools, and why others are left out."""

    name: str
    tools: tuple[Tool, ...]
    left_out: tuple[str, ...]
    effects: Mapping[str, Effect]
    """What the settings say of its tools."""
    client: McpClient
    explained: Callable[[McpUnavailable], McpUnavailable]

    def call(self, tool: str, arguments: Mapping[str, Json]) -> McpResult:
        """Call a tool.

        Raises:
            McpUnavailable: the server does not answer; the message names it.
        """
        try:
            return self.client.call(tool, arguments)
        except McpUnavailable as error:
            raise self.explained(error) from None


def named_server(settings: Settings, name: str) -> McpServer:
    """Return the table of a server.

    Raises:
        OptionInvalid: the settings have no server of this name.
    """
    server = settings.mcp.get(name)
    if server is None:
        known = ", ".join(sorted(settings.mcp)) or "none: `harness mcp add` adds one"
        raise OptionInvalid(f"no MCP server {name!r} in the settings; known: {known}")
    return server


@contextmanager
def open_server(
    settings: Settings,
    name: str,
    engine: Callable[[], DockerEngine],
    *,
    run_id: str,
    on_event: OnEvent = lambda _: None,
    on_line: Callable[[str], None] = lambda _: None,
) -> Iterator[OpenServer]:
    """Start a server and ask for its tools; the block's end stops it.

    `on_event` gets its network accesses, `on_line` the lines of a build of its image.

    Raises:
        OptionInvalid: the settings have no server of this name.
        SecretMissing: a variable that its table names is not set.
        McpUnavailable: it does not start or does not answer; the message names it.
        ImageUnavailable, DockerUnavailable: it has no sandbox.
    """
    server = named_server(settings, name)
    redact = make_redactor(environment())
    running: StdioServer | None = None

    def explained(error: McpUnavailable) -> McpUnavailable:
        lines = strip_control_characters(running.last_words() if running else "").splitlines() or [
            ""
        ]
        words = one_line(lines[-1], 300)
        return McpUnavailable(
            redact(f"MCP server {name!r}: {error}{f': {words}' if words else ''}")
        )

    with ExitStack() as stack:
        if server.command:
            sandbox = _Sandboxed(settings, server, name, engine, run_id)
            running = stack.enter_context(sandbox.running(on_event, on_line))
            opening = socket_client(running.connection, timeout_s=server.timeout_s)
        else:
            headers = _expanded(name, "headers", server.headers)
            opening = url_client(server.url, headers, timeout_s=server.timeout_s)
        try:
            client = stack.enter_context(opening)
            tools, left_out = usable_tools(name, client.tools())
        except McpUnavailable as error:
            raise explained(error) from None
        yield OpenServer(
            name=name,
            tools=tools,
            left_out=left_out,
            effects=server.tools,
            client=client,
            explained=explained,
        )


@contextmanager
def run_server(
    settings: Settings,
    engine: Callable[[], DockerEngine],
    request: ResolvedRequest,
    run_id: str,
    folder: Path,
    tell: Tell,
    name: str,
) -> Iterator[OpenServer]:
    """Start a server for a run, with its network accesses in the run's log.

    Raises:
        McpUnavailable: as `open_server`; or the run may have no way out, and the server is one.
        OptionInvalid, SecretMissing, ImageUnavailable, DockerUnavailable: as `open_server`.
    """
    server, source, log = named_server(settings, name), f"mcp {name}", EgressLog(folder / EGRESS)
    if not request.way_out and (server.url or server.egress):
        raise McpUnavailable(
            f"MCP server {name!r} reaches hosts, and this run may reach none because its commit "
            "tracks secrets: see [policy] tracked_secrets"
        )
    with open_server(
        settings,
        name,
        engine,
        run_id=run_id,
        on_event=log,
        on_line=lambda line: tell(source, line),
    ) as opened:
        for line in opened.left_out:
            tell(source, f"agents are not offered {line}")
        yield opened
    for line in log.notices:
        tell(source, line)


class _Sandboxed(NamedTuple):
    """A server's command and its sandbox."""

    settings: Settings
    server: McpServer
    name: str
    engine: Callable[[], DockerEngine]
    run_id: str

    @contextmanager
    def running(self, on_event: OnEvent, on_line: Callable[[str], None]) -> Iterator[StdioServer]:
        server, docker, wanted = self.server, self.engine(), self.settings.sandbox
        own = _expanded(self.name, "env", server.env)
        spec = SandboxSpec(
            image=server.image or ensure_image(docker, mcp_recipe(server.packages), on_line),
            owner=home_owner(self.settings.home),
            run_id=self.run_id,
            ttl_s=wanted.ttl_s,
            limits=wanted.limits,
            runtime=wanted.runtime,
        )
        reached = wanted.model_copy(update={"egress": server.egress})
        with (
            DockerSandbox.start(docker, spec) as sandbox,
            open_way_out(sandbox, reached, (), on_event=on_event) as env,
            stdio_server(sandbox, server.command, {**env, **own}) as running,
        ):
            yield running


def usable_tools(name: str, tools: Sequence[Tool]) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Return the tools that agents can be offered, and one line for each that they cannot."""
    usable: dict[str, Tool] = {}
    left_out: list[str] = []
    for tool in tools:
        if reason := _why_unusable(name, tool) or (tool.name in usable and "its name is taken"):
            left_out.append(f"{one_line(strip_control_characters(tool.name), 60)!r}: {reason}")
        elif len(usable) == MAX_TOOLS:
            left_out.append(f"all but the first {MAX_TOOLS} of its tools")
            break
        else:
            description = strip_control_characters(tool.description)
            usable[tool.name] = Tool(
                name=tool.name,
                description=truncate_middle(description, _MAX_DESCRIPTION),
                parameters={"type": "object", **tool.parameters},
            )
    return tuple(usable.values()), tuple(left_out)


def _why_unusable(server: str, tool: Tool) -> str:
    if not _NAME.fullmatch(tool.name):
        return "models take only letters, digits, _ and - in a name"
    if len(f"{server}__{tool.name}") > MAX_NAME:
        return f"SERVER__TOOL has more than {MAX_NAME} characters: give the server a shorter name"
    size = len(json.dumps(tool.parameters))
    return f"its schema has {size} characters" if size > _MAX_SCHEMA else ""


def _expanded(server: str, field: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts with each `${NAME}` replaced by the variable's value."""
    environ, expanded = environment(), {}
    for key, text in texts.items():
        if unset := unset_variables(text, environ):
            raise SecretMissing(
                f"MCP server {server!r}: [mcp.{server}.{field}] {key} names the variable "
                f"{unset[0]!r}, which is not set"
            )
        expanded[key] = expand_variables(text, environ) or ""
    return expanded
