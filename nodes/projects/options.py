"""Run options that override how a project is installed and tested."""

import re
from collections.abc import Mapping, Sequence

from contracts.errors import OptionInvalid
from nodes.commands import parse_command_line

TEST_TIMEOUT_S = 600.0
"""Default time limit of one test run in seconds; the option `test_timeout` overrides it."""

MAX_TEST_TIMEOUT_S = 24 * 3600.0

_TEST_TIMEOUT = "test_timeout"
_PROJECT = "project"
_PACKAGES = "packages"
_PACKAGE = re.compile(
    r"(npm:(@[a-z0-9._-]+/)?[a-z0-9._-]+(@[\w.^~-]+)?|[a-z0-9][a-z0-9+.-]+(/[a-z-]+)?)"
)
_MOST_PACKAGES = 60

PROJECT_OPTIONS = {
    "install": "command that installs the project; empty installs nothing",
    "test": "command that tests the project; empty means that it has no tests",
    _PROJECT: "folder of the project, if it is not the repository's own",
    _PACKAGES: "Debian packages that the sandbox needs, such as 'less graphviz'",
    _TEST_TIMEOUT: f"time limit of one test run in seconds; default {TEST_TIMEOUT_S:g}",
}
"""Options (`--set`) of every blueprint that installs and tests a project."""


def check_option(name: str, value: str) -> None:
    """Check the value of one of `PROJECT_OPTIONS`.

    Raises:
        OptionInvalid: a command has an unclosed quote, or the time limit is not a valid number.
    """
    match name:
        case "test_timeout":
            time_limit_s({name: value})
        case "project":
            folder_option({name: value})
        case "packages":
            package_option({name: value})
        case _:
            command_option(value)


def folder_option(options: Mapping[str, str]) -> str:
    """Return the project's folder, relative to the repository; empty for the repository's own.

    Raises:
        OptionInvalid: it is no folder inside the repository.
    """
    folder = options.get(_PROJECT, "").strip().removeprefix("./").rstrip("/")
    if folder.startswith("/") or {"..", ".git"} & set(folder.split("/")):
        raise OptionInvalid(
            f"--set {_PROJECT}={folder}: give a folder inside the repository, such as packages/api"
        )
    return "" if folder == "." else folder


def package_option(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the packages of the option.

    Raises:
        OptionInvalid: a name is not that of a package.
    """
    return check_packages(options.get(_PACKAGES, "").split(), where=f"--set {_PACKAGES}")


def check_packages(names: Sequence[str], *, where: str) -> tuple[str, ...]:
    """Return the names of packages; those of npm have `npm:` before them.

    Raises:
        OptionInvalid: a name is not that of a package, or there are too many.
    """
    for name in names:
        if not _PACKAGE.fullmatch(name):
            raise OptionInvalid(
                f"{where}: {name!r} is not the name of a Debian package, such as libxml2-utils"
            )
    if len(names) > _MOST_PACKAGES:
        raise OptionInvalid(f"{where}: {len(names)} packages, at most {_MOST_PACKAGES}")
    return tuple(names)


def time_limit_s(options: Mapping[str, str], declared_s: float | None = None) -> float:
    """Return the time limit of one test run in seconds; `declared_s` is the repository's own.

    Raises:
        OptionInvalid: the option is not a number above 0 and at most a day.
    """
    value = options.get(_TEST_TIMEOUT)
    if value is None:
        return declared_s or TEST_TIMEOUT_S
    try:
        limit_s = float(value)
    except ValueError:
        limit_s = 0.0
    if 0 < limit_s <= MAX_TEST_TIMEOUT_S:
        return limit_s
    raise OptionInvalid(
        f"--set {_TEST_TIMEOUT}={value}: it must be a number of seconds above 0 and at most "
        f"{MAX_TEST_TIMEOUT_S:g}"
    )


def command_option(line: str) -> tuple[str, ...] | None:
    """Return the argv of a command option; None if it is empty.

    Raises:
        OptionInvalid: a quote is not closed.
    """
    return parse_command_line(line) if line.strip() else None
