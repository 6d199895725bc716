"""The table of ecosystems, `ecosystems.toml`, and how a row becomes a project."""

import re
import shlex
import tomllib
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from pydantic import BaseModel, Field

from nodes.projects.types import Online, Project, ProjectFiles, table_at

PYTHON = "python"
"""The row whose commands are found by `nodes/projects/python.py`."""

WRAPPING = "just"
"""A row whose tests may need the tools of any language, and that brings no package of its own."""

PYTHON_SIGNS = ("pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py", "pytest.ini")
"""Files that make a folder a Python project."""


class Sign(BaseModel, frozen=True, extra="forbid"):
    """A file of the project, and what must be in it."""

    file: str
    """Patterns of paths from the project's folder, separated by `|`; the first file counts."""
    key: str = ""
    """Path of a key with a value, such as `scripts.test`; the file is JSON or TOML."""
    has: str = ""
    """Regular expression that the text must contain."""
    lacks: str = ""
    """Regular expression that the text, or the key's value, must not contain."""

    def found_in(self, files: ProjectFiles) -> str | None:
        """Return the file that fits, or None."""
        patterns = self.file.split("|")
        for pattern in patterns:
            fitting = (n for n in _named(files, pattern) if self._fits(files, n))
            if name := next(fitting, None):
                return name
        return None

    def _fits(self, files: ProjectFiles, name: str) -> bool:
        if not (self.key or self.has or self.lacks):
            return True
        text = files.text(name)
        if self.key:
            data = files.toml(name) if name.endswith(".toml") else files.json(name)
            *path, last = self.key.split(".")
            value = table_at(data, *path).get(last)
            if not isinstance(value, str | list | dict) or not value or not str(value).strip():
                return False
            text = value if isinstance(value, str) else ""
        wanted = not self.has or bool(re.search(self.has, text))
        return wanted and not (self.lacks and re.search(self.lacks, text))


AnySign = Sign | str


class Way(BaseModel, frozen=True, extra="forbid"):
    """One way to install and test; the first whose `when` all hold is taken.

    Commands are split as a shell splits words, but no shell runs them.
    """

    when: tuple[AnySign, ...] = ()
    install: str = ""
    test: str
    locked: str = ""
    """Test command if the ecosystem's lock or manifest is installed by its own tool."""
    online: bool = False
    """Only with a network."""
    packages: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()


class Ecosystem(BaseModel, frozen=True, extra="forbid"):
    """How projects of one ecosystem are recognised, installed and tested."""

    name: str
    signs: tuple[AnySign, ...]
    """Any one of them makes a project."""
    wraps: bool = False
    """Its commands call the tools of any language: what `languages` says is needed too."""
    index: str = ""
    """Name of the package index that installs reach."""
    packages: tuple[str, ...] = ()
    """Debian packages of the toolchain."""
    if_files: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """More packages, if a file has a last name of this pattern."""
    manifests: tuple[str, ...] = ()
    """Names of the files that decide what an install lays down."""
    sources: tuple[str, ...] = ()
    """Names of files that an install compiles into its result."""
    install_if: tuple[AnySign, ...] = ()
    """There is something to install if any of these is there; empty: always."""
    install: str = ""
    offline: str = ""
    """Install command without a network."""
    offline_optional: bool = False
    """The tests can run if the install fails, without a network."""
    test_if: tuple[AnySign, ...] = ()
    """There are tests only if all of these are there."""
    no_tests: str = ""
    """What to say if they are not."""
    ways: tuple[Way, ...] = ()
    env: Mapping[str, str] = Field(default_factory=dict)


class _Table(BaseModel, frozen=True, extra="forbid"):
    tools: Mapping[str, str]
    languages: Mapping[str, tuple[str, ...]]
    ecosystem: tuple[Ecosystem, ...]


@cache
def _table() -> _Table:
    return _Table.model_validate(
        tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    )


def ecosystems() -> tuple[Ecosystem, ...]:
    """Return all rows, in order of preference."""
    return _table().ecosystem


def ecosystem(name: str) -> Ecosystem:
    """Return the row with this name, which the table has."""
    return next(one for one in ecosystems() if one.name == name)


def package_of(tool: str) -> str | None:
    """Return the Debian package with this program, if the table knows one."""
    return _table().tools.get(tool)


def sign_of(row: Ecosystem, files: ProjectFiles) -> str | None:
    """Return the file by which these files are a project of the ecosystem, or None."""
    return next(filter(None, (_found(sign, files) for sign in row.signs)), None)


def project_of(row: Ecosystem, files: ProjectFiles, can_reach: Online) -> Project | None:
    """Return the project that a row makes of these files, or None if it has no sign there."""
    sign = sign_of(row, files)
    if sign is None:
        return None
    needs_install = not row.install_if or any(_found(one, files) for one in row.install_if)
    online = not (row.index and needs_install) or can_reach(row.index)
    ways = (one for one in row.ways if _all(one.when, files) and (online or not one.online))
    way = next(ways, None)
    if way is None or not _all(row.test_if, files):
        why = row.no_tests or f"there is {sign}, but no tests that {row.name} has a rule for"
        way, tested = way or Way(test=""), False
    else:
        named = next(filter(None, (_found(one, files) for one in (*way.when, *row.test_if))), sign)
        why, tested = f"there is {named}", True
    install = (way.install or row.install) if online or not row.offline else row.offline
    own_tool = bool(way.locked) and online and needs_install
    return Project(
        kind=row.name,
        why=why,
        install=_argv(install) if needs_install else None,
        test=_argv(way.locked if own_tool else way.test) if tested else None,
        env=row.env,
        install_optional=not online and row.offline_optional,
        unreached="" if online else row.index,
        packages=(*toolchain(row, files), *way.packages, *(f"npm:{one}" for one in way.npm)),
    )


def toolchain(row: Ecosystem, files: ProjectFiles) -> tuple[str, ...]:
    """Return the packages that projects of this ecosystem with these files need."""
    rules = {**row.if_files, **(_table().languages if row.wraps else {})}
    last = {path.rpartition("/")[2] for path in files.own} if rules else set[str]()
    more = (one for pattern, rest in rules.items() if _any_named(last, pattern) for one in rest)
    return tuple(dict.fromkeys((*row.packages, *more)))


def _any_named(names: Collection[str], pattern: str) -> bool:
    """Match names to a pattern in which `{a,b}` is a choice."""
    head, brace, rest = pattern.partition("{")
    inner, _, tail = rest.partition("}")
    patterns = [f"{head}{word}{tail}" for word in inner.split(",")] if brace else [pattern]
    return any(fnmatchcase(name, one) for name in names for one in patterns)


def _argv(line: str) -> tuple[str, ...] | None:
    return tuple(shlex.split(line)) or None


def _all(signs: tuple[AnySign, ...], files: ProjectFiles) -> bool:
    return all(_found(sign, files) for sign in signs)


def _found(sign: AnySign, files: ProjectFiles) -> str | None:
    return (Sign(file=sign) if isinstance(sign, str) else sign).found_in(files)


def _named(files: ProjectFiles, pattern: str) -> list[str]:
    if not set(pattern) & set("*?["):
        return [pattern] if pattern in files.paths else []
    depth = pattern.count("/")
    return sorted(n for n in files.paths if n.count("/") == depth and fnmatchcase(n, pattern))


def may_be_sign(name: str) -> bool:
    """Return True if a file of this name can make its folder a project."""
    return name in PYTHON_SIGNS or any(fnmatchcase(name, one) for one in _sign_names())


@cache
def _sign_names() -> tuple[str, ...]:
    signs = (sign for row in ecosystems() for sign in row.signs)
    files = (sign if isinstance(sign, str) else sign.file for sign in signs)
    return tuple(name for file in files for name in file.split("|"))
