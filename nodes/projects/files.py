"""A project's files as detection reads them. All of it is hostile: parsed, never run."""

import json
import tomllib
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as IniError
from dataclasses import dataclass
from functools import cached_property

from contracts.errors import SandboxFileError
from contracts.json import as_mapping
from contracts.sandbox import Command, Sandbox
from nodes.node_sandbox import discard_output

MAX_TEXT_BYTES = 256 * 1024
"""Bytes: a larger file is taken as not there."""

_LIST = ("find", ".", "-mindepth", "1", "-maxdepth", "2", "-not", "-path", "./.git/*", "-not")
_LISTING = Command(argv=(*_LIST, "-path", "./node_modules/*", "-print0"), output_limit=1024 * 1024)

ParsedTable = Mapping[str, object]


@dataclass(frozen=True)
class ProjectFiles:
    """The names at the top of the workspace and one level down, and the texts of small files.

    What is missing, too large, no regular file or cannot be parsed reads as empty.
    """

    sandbox: Sandbox

    @cached_property
    def names(self) -> frozenset[str]:
        """Paths relative to the workspace, from one listing; `.git` itself, but nothing in it."""
        listed = (
            self.sandbox.exec(_LISTING, discard_output)
            .stdout.decode("utf-8", "replace")
            .split("\0")
        )
        return frozenset(name.removeprefix("./") for name in listed if name)

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
            return table_at(json.loads(self.text(name)))
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
    """The table found by following `keys`; empty when there is none on the way."""
    for key in keys:
        data = as_mapping(data).get(key)
    return as_mapping(data)
