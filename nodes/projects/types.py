"""A detected project, and the files that it is detected from."""

import json
import shlex
import tomllib
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as IniError
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Literal

from contracts.errors import SandboxFileError
from contracts.json import as_mapping
from contracts.sandbox import Command, Sandbox
from nodes.node_sandbox import discard_output

MAX_TEXT_BYTES = 256 * 1024
"""A larger file is treated as missing."""

_FIND = ("find", ".", "-mindepth", "1", "-maxdepth", "2", "-not", "-path", "./.git/*", "-not")
_LIST = Command(argv=(*_FIND, "-path", "./node_modules/*", "-print0"), output_limit=1024 * 1024)

ProjectKind = Literal["python", "node", "make", "unknown"]
ParsedTable = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Project:
    """How a project is installed and tested. `why` names the evidence.

    `install=None`: there is nothing to install. `test=None`: no way to test was found. `env` is
    set for both commands. `install_optional`: the tests can run if the install fails.
    """

    kind: ProjectKind
    why: str
    install: tuple[str, ...] | None = None
    test: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    install_optional: bool = False

    @property
    def fact(self) -> str:
        """The part that later nodes rely on, whatever agents do to the files."""
        return json.dumps([self.kind, self.why, self.test, self.install])

    def __str__(self) -> str:
        """Return three lines for people and prompts; both commands can be pasted into a shell."""
        return (
            f"{self.kind} project: {self.why}\n"
            f"install: {self._line(self.install)}\ntest: {self._line(self.test)}"
        )

    def _line(self, argv: tuple[str, ...] | None) -> str:
        if argv is None:
            return "-"
        return " ".join([*(f"{k}={shlex.quote(v)}" for k, v in self.env.items()), shlex.join(argv)])


@dataclass(frozen=True)
class ProjectFiles:
    """Names and texts of files in the workspace's top two levels.

    The files are untrusted: they are parsed, never executed. A file that is missing, too large,
    not regular or not parsable reads as empty.
    """

    sandbox: Sandbox

    @cached_property
    def names(self) -> frozenset[str]:
        """Paths relative to the workspace. `.git` is listed, its contents are not."""
        listed = self.sandbox.exec(_LIST, discard_output).stdout.decode("utf-8", "replace")
        return frozenset(name.removeprefix("./") for name in listed.split("\0") if name)

    def text(self, name: str) -> str:
        if name not in self.names:
            return ""
        try:
            return self.sandbox.read_file(name, MAX_TEXT_BYTES).decode("utf-8", "replace")
        except SandboxFileError:
            return ""

    def toml(self, name: str) -> ParsedTable:
        try:
            return tomllib.loads(self.text(name))
        except (ValueError, RecursionError):
            return {}

    def json(self, name: str) -> ParsedTable:
        try:
            return as_mapping(json.loads(self.text(name)))
        except (ValueError, RecursionError):
            return {}

    def ini(self, name: str) -> ConfigParser:
        parser = ConfigParser(interpolation=None, strict=False)
        try:
            parser.read_string(self.text(name))
        except (IniError, ValueError):
            return ConfigParser()
        return parser


def table_at(data: object, *keys: str) -> ParsedTable:
    """Return the table at this path of keys, or an empty one."""
    for key in keys:
        data = as_mapping(data).get(key)
    return as_mapping(data)
