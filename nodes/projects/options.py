"""Run options that override how a project is installed and tested."""

from collections.abc import Mapping

from contracts.errors import OptionInvalid
from nodes.commands import parse_command_line

TEST_TIMEOUT_S = 600.0
"""Default time limit of one test run in seconds; the option `test_timeout` overrides it."""

MAX_TEST_TIMEOUT_S = 24 * 3600.0

_TEST_TIMEOUT = "test_timeout"

PROJECT_OPTIONS = {
    "install": "command that installs the project; empty installs nothing",
    "test": "command that tests the project; empty means that it has no tests",
    _TEST_TIMEOUT: f"time limit of one test run in seconds; default {TEST_TIMEOUT_S:g}",
}
"""Options (`--set`) of every blueprint that installs and tests a project."""


def check_option(name: str, value: str) -> None:
    """Check the value of one of `PROJECT_OPTIONS`.

    Raises:
        OptionInvalid: a command has an unclosed quote, or the time limit is not a valid number.
    """
    if name == _TEST_TIMEOUT:
        time_limit_s({name: value})
    else:
        command_option(value)


def time_limit_s(options: Mapping[str, str]) -> float:
    """Return the time limit of one test run in seconds.

    Raises:
        OptionInvalid: the option is not a number above 0 and at most a day.
    """
    value = options.get(_TEST_TIMEOUT)
    if value is None:
        return TEST_TIMEOUT_S
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
