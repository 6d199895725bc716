"""What a person may say of how a project installs and tests itself, instead of its files."""

from collections.abc import Mapping

from contracts.errors import OptionInvalid
from nodes.commands import parse_command_line

TEST_TIMEOUT_S = 600.0
"""Seconds that one run of the tests may take, unless the option `test_timeout` says otherwise."""

MAX_TEST_TIMEOUT_S = 24 * 3600.0

_TEST_TIMEOUT = "test_timeout"

PROJECT_OPTIONS = {
    "install": "the command that installs the project; empty: install nothing",
    "test": "the command that tests the project; empty: there are no tests",
    _TEST_TIMEOUT: f"seconds that one run of the tests may take; default {TEST_TIMEOUT_S:g}",
}
"""What `--set` may give to every blueprint that installs and tests."""


def check_option(name: str, value: str) -> None:
    """Refuse a value that this one of `OPTIONS` cannot have.

    Raises:
        OptionInvalid: a command's quotes are not closed, or the time limit is no usable number.
    """
    if name == _TEST_TIMEOUT:
        time_limit_s({name: value})
    else:
        command_option(value)


def time_limit_s(options: Mapping[str, str]) -> float:
    """Seconds that one run of the tests may take.

    Raises:
        OptionInvalid: the option is no number above 0, or more than a day.
    """
    told = options.get(_TEST_TIMEOUT)
    if told is None:
        return TEST_TIMEOUT_S
    try:
        limit_s = float(told)
    except ValueError:
        limit_s = 0.0
    if 0 < limit_s <= MAX_TEST_TIMEOUT_S:
        return limit_s
    raise OptionInvalid(
        f"--set {_TEST_TIMEOUT}={told}: it must be a number of seconds above 0 and at most "
        f"{MAX_TEST_TIMEOUT_S:g}"
    )


def command_option(line: str) -> tuple[str, ...] | None:
    """The argv for one of them; None where it is empty.

    Raises:
        OptionInvalid: its quotes are not closed.
    """
    return parse_command_line(line) if line.strip() else None
