"""A detected project, and the files that it is detected from."""

import json
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from configparser import ConfigParser
from configparser import Error as IniError
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from contracts.errors import SandboxFileError
from contracts.json import as_mapping
from contracts.sandbox import Command, Sandbox
from nodes.node_sandbox import discard_output

MAX_TEXT_BYTES = 256 * 1024
"""A larger file is treated as missing."""

_CUT = ("(", "-path", "./.git/*", "-o", "-path", "*/node_modules/*", ")", "-prune", "-o")
_LIST = Command(
    argv=("find", ".", "-mindepth", "1", *_CUT, "-print0"), output_limit=8 * 1024 * 1024
)
_LIST_IGNORED = Command(
    argv=(
        "git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--others", "--ignored",
        "--exclude-standard", "--directory",
    ),
    output_limit=8 * 1024 * 1024,
)  # fmt: skip
_NOT_ITS_OWN = re.compile(r"(^|/)(\.[^/]+|node_modules|vendor|third_party|testdata|fixtures)/")
_TOP_LEVELS = 2

ParsedTable = Mapping[str, object]

Online = Callable[[str], bool]
"""Whether installs can reach the package index with this name."""

FACT_FIELDS = (
    "kind", "why", "test", "install", "env", "install_optional", "declared", "folder",
    "test_timeout_s", "unreached",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Project:
    """How a project is installed and tested. `why` names the evidence.

    `install=None`: there is nothing to install. `test=None`: no way to test was found. `env` is
    set for both commands, which run in `folder`; empty is the repository's own. `install_optional`:
    the tests can run if the install fails. `declared`: the repository itself names the install.
    `packages` are the Debian packages of the toolchain, and npm packages with `npm:` before them.
    """

    kind: str
    why: str
    install: tuple[str, ...] | None = None
    test: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    install_optional: bool = False
    declared: bool = False
    folder: str = ""
    packages: tuple[str, ...] = ()
    test_timeout_s: float | None = None
    unreached: str = ""
    """The package index that it needs and that cannot be reached."""
    notices: tuple[str, ...] = ()
    """What the repository asks for and does not get."""
    install_files: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Files for the install command, by path in the workspace."""

    @property
    def fact(self) -> str:
        """The part that later nodes rely on, whatever agents do to the files."""
        found = asdict(replace(self, env=dict(self.env), install_files={}))
        return json.dumps({name: found[name] for name in FACT_FIELDS})

    @property
    def cwd(self) -> str | None:
        """The folder of both commands, as `Command` takes it."""
        return self.folder or None

    def __str__(self) -> str:
        """Return lines for people and prompts; both commands can be pasted into a shell."""
        where = f" in {self.folder}" if self.folder else ""
        return "\n".join(
            (
                f"{self.kind} project{where}: {self.why}",
                f"install: {self._line(self.install)}",
                f"test: {self._line(self.test)}",
                *self.notices,
            )
        )

    def _line(self, argv: tuple[str, ...] | None) -> str:
        if argv is None:
            return "-"
        return " ".join([*(f"{k}={shlex.quote(v)}" for k, v in self.env.items()), shlex.join(argv)])


@dataclass(frozen=True)
class ProjectFiles:
    """Names and texts of a project's files, in a sandbox or in a commit.

    The files are untrusted: they are parsed, never executed. A file that is missing, too large,
    not regular or not parsable reads as empty.
    """

    paths: frozenset[str]
    """Files and folders at any depth, relative to the project's folder. `.git` is among them, its
    content is not."""
    read: Callable[[str], bytes]

    @cached_property
    def names(self) -> frozenset[str]:
        """The paths in the top two levels."""
        return frozenset(path for path in self.paths if path.count("/") < _TOP_LEVELS)

    @cached_property
    def own(self) -> frozenset[str]:
        """The paths without hidden folders and folders for copies of other projects."""
        return frozenset(path for path in self.paths if not _NOT_ITS_OWN.search(path))

    def below(self, folder: str) -> "ProjectFiles":
        """Return the files of a project in a folder of this one."""
        start = f"{folder}/"
        inside = (path.removeprefix(start) for path in self.paths if path.startswith(start))
        return ProjectFiles(
            frozenset(inside) | self.paths & {".git"}, lambda n: self.read(start + n)
        )

    def text(self, name: str) -> str:
        return self.read(name).decode("utf-8", "replace") if name in self.paths else ""

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


def sandbox_files(sandbox: Sandbox) -> ProjectFiles:
    """Return the files in the workspace, without those that git ignores."""
    listed = sandbox.exec(_LIST, discard_output).stdout.decode("utf-8", "replace")
    found = (name.removeprefix("./") for name in listed.split("\0") if name)
    # What an install made, such as `configure`, would be taken for another kind of project.
    ignored = _ignored(sandbox)
    paths = frozenset(path for path in found if not _is_below(path, ignored))

    def read(name: str) -> bytes:
        try:
            return sandbox.read_file(name, MAX_TEXT_BYTES)
        except SandboxFileError:
            return b""

    return ProjectFiles(paths, read)


def _ignored(sandbox: Sandbox) -> frozenset[str]:
    """Return the files and folders that git does not track and ignores."""
    listed = sandbox.exec(_LIST_IGNORED, discard_output)
    names = listed.stdout.decode("utf-8", "replace").split("\0") if listed.ok else []
    return frozenset(name.rstrip("/") for name in names if name)


def _is_below(path: str, folders: frozenset[str]) -> bool:
    parts = path.split("/")
    return any("/".join(parts[:end]) in folders for end in range(1, len(parts) + 1))


def table_at(data: object, *keys: str) -> ParsedTable:
    """Return the table at this path of keys, or an empty one."""
    for key in keys:
        data = as_mapping(data).get(key)
    return as_mapping(data)
