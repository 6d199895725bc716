"""Versions of tools that a repository asks for, and which of them the sandbox does not have."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from contracts.sandbox import Command, Sandbox
from nodes.node_sandbox import discard_output
from nodes.projects.obstacles import IMAGE
from nodes.projects.types import ProjectFiles, table_at

_BASE_NODE = 18
"""Node of the base image."""
_NODES = range(12, 41)
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_PLAIN = re.compile(
    r"(?:(?!nightly|beta|stable)[a-z]+-|v|go|[\^~]|>=?|==?)?\s*(\d+(?:\.\d+)*)(?!\w)"
)
_BOUND = re.compile(r"\s*(>=?|<=?|[\^~=]?)\s*v?(\d+|[*x])")
_ASK = {
    "python": ("python3", "--version"),
    "node": ("node", "--version"),
    "go": ("go", "env", "GOVERSION"),
    "rust": ("rustc", "--version"),
    "ruby": ("ruby", "--version"),
    "java": ("javac", "--version"),
    "php": ("php", "--version"),
}
_BY_MAJOR = ("node", "java")
"""Tools of which only the first number matters; of others the first two do."""
_ONE_VERSION = {
    ".python-version": "python",
    ".nvmrc": "node",
    ".node-version": "node",
    ".ruby-version": "ruby",
}
_SAME = {"nodejs": "node", "golang": "go"}


class Wanted(NamedTuple):
    """A version of a tool, as the file of the repository has it."""

    tool: str
    version: str
    file: str


def wanted_versions(files: ProjectFiles) -> Iterator[Wanted]:
    """Yield the tools with the versions that the repository asks for."""
    for name, tool in _ONE_VERSION.items():
        for line in files.text(name).split()[:1]:
            yield Wanted(tool, line, name)
    for line in files.text(".tool-versions").splitlines():
        words = line.partition("#")[0].split()
        if len(words) > 1:
            yield Wanted(_SAME.get(words[0], words[0]), words[1], ".tool-versions")
    for name in ("mise.toml", ".mise.toml"):
        for tool, wanted in table_at(files.toml(name), "tools").items():
            value = wanted.get("version", "") if isinstance(wanted, dict) else wanted
            yield Wanted(_SAME.get(tool, tool), str(value), name)
    if go := re.search(r"(?m)^go (\d[\d.]*)", files.text("go.mod")):
        yield Wanted("go", go[1], "go.mod")
    channel = table_at(files.toml("rust-toolchain.toml"), "toolchain").get("channel")
    yield Wanted("rust", str(channel or ""), "rust-toolchain.toml")
    yield Wanted("rust", files.text("rust-toolchain").strip(), "rust-toolchain")
    engine = table_at(files.json("package.json"), "engines").get("node")
    if isinstance(engine, str) and (major := _needed_node(engine)):
        yield Wanted("node", str(major), "package.json")


def node_package(files: ProjectFiles) -> tuple[str, ...]:
    """Return the npm package of the Node that the repository asks for, if it is another."""
    wanted = (one.version for one in wanted_versions(files) if one.tool == "node")
    found = next((plain for version in wanted if (plain := _PLAIN.match(version))), None)
    major = int(found[1].partition(".")[0]) if found else _BASE_NODE
    return (f"npm:node@{major}",) if major != _BASE_NODE and major in _NODES else ()


def _needed_node(engine: str) -> int | None:
    """Return the lowest Node of a range in `engines` that does not allow the image's.

    A range that only older ones fit is left alone: npm warns of it and goes on.
    """
    found = [_BOUND.match(alternative) for alternative in engine.split("||")]
    newer: list[int] = []
    for bound in found:
        if bound is None or bound[2] in "*x" or "<" in bound[1]:
            return None
        major = int(bound[2])
        if major == _BASE_NODE or (">" in bound[1] and major < _BASE_NODE):
            return None
        newer += [major] if major > _BASE_NODE else []
    return min(newer, default=None)


def older_tools(files: ProjectFiles, sandbox: Sandbox) -> dict[str, str]:
    """Return tools of the sandbox that are older than the repository asks for, each with a line.

    A newer one will do, and of most tools any of the same minor version.
    """
    lines: dict[str, str] = {}
    for tool, version, file in wanted_versions(files):
        wants, command = _PLAIN.match(version), _ASK.get(tool)
        if wants is None or command is None or tool in lines:
            continue
        asked = sandbox.exec(Command(argv=command), discard_output)
        has = _VERSION.search(asked.text) if asked.ok else None
        if has and _is_older(has[0], wants[1], parts=1 if tool in _BY_MAJOR else 2):
            lines[tool] = (
                f"the repository asks for {tool} {wants[1]} ({file}), the sandbox has {has[0]}: "
                f"{IMAGE}"
            )
    return lines


def _is_older(has: str, wants: str, *, parts: int) -> bool:
    numbers = ([int(part) for part in text.split(".")[:parts]] for text in (has, wants))
    return next(numbers) < next(numbers)
