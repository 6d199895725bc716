"""MCP servers whose tools agents may be given: `[mcp.NAME]` in `harness.toml`."""

import re
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from contracts.errors import OptionInvalid
from contracts.tool import Effect

_NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")
_PACKAGE = re.compile(
    r"npm:(@[\w.-]+/)?[\w.-]+@[\w.+-]+"
    r"|pypi:[\w.-]+(\[[\w,-]+\])?==[\w.+!-]+"
    r"|[a-z0-9][a-z0-9.+-]+",
    re.ASCII,
)


def _server_name(name: str) -> str:
    # Without an underscore, so that `NAME__TOOL` names one tool of one server.
    if not _NAME.fullmatch(name):
        raise PydanticCustomError(
            "server_name", "a server's name has at most 20 lower-case letters, digits and hyphens"
        )
    return name


def _package(package: str) -> str:
    if not _PACKAGE.fullmatch(package):
        raise PydanticCustomError(
            "package", "give npm:NAME@VERSION, pypi:NAME==VERSION, or a package of Debian"
        )
    return package


ServerName = Annotated[str, AfterValidator(_server_name)]

_OF_COMMAND = ("packages", "image", "egress", "env")


class McpServer(BaseModel, frozen=True, extra="forbid"):
    """One MCP server: a command that runs in a sandbox of its own, or a URL."""

    command: tuple[str, ...] = ()
    """Program and arguments of a server that talks on its standard streams."""
    url: str = Field(default="", pattern=r"^(https?://[^\s/]+\S*)?$")
    """URL of a server that talks streamable HTTP."""
    packages: tuple[Annotated[str, AfterValidator(_package)], ...] = ()
    """Packages in the image of its sandbox: `npm:NAME@VERSION`, `pypi:NAME==VERSION`, or a name
    of Debian's."""
    image: str | None = None
    """Image of its sandbox; it needs python3 and a user with uid 1000. None: the base image with
    `packages`."""
    egress: tuple[str, ...] = ()
    """Hosts that it may reach. Empty: no network."""
    env: dict[str, str] = Field(default_factory=dict)
    """Its environment; `${NAME}` stands for a variable of Harness's environment."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers of each request to the URL; `${NAME}` as above."""
    tools: dict[str, Effect] = Field(default_factory=dict)
    """What each tool does: `read`, `write` or `egress`. One that is not named counts as egress."""
    timeout_s: float = Field(default=60.0, gt=0, le=600)
    """Seconds that it may take to start, and to answer one call."""

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise PydanticCustomError("one_way", "give either a command or a url")
        other = ("headers",) if self.command else _OF_COMMAND
        for name in other:
            if getattr(self, name):
                kind = "command" if self.command else "url"
                raise PydanticCustomError("other_way", f"a server with a {kind} has no {name}")
        if self.image and self.packages:
            raise PydanticCustomError("two_images", "give either an image or packages")
        return self


def check_server(name: str, table: Mapping[str, object]) -> None:
    """Check a table before it is written to the file.

    Raises:
        OptionInvalid: the name or a value cannot be used.
    """
    try:
        TypeAdapter(dict[ServerName, McpServer]).validate_python({name: table})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(["mcp", *(str(part) for part in first["loc"] if part != "[key]")])
        raise OptionInvalid(f"{place}: {first['msg']}") from error
