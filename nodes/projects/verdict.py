"""Whether a test command said anything about the tests. Pure.

Tests that hang, crash or run out of memory are failing tests: an agent can fix that.
"""

import re

from contracts.sandbox import ExecResult
from nodes.commands import command_result

_SHELL_NOT_RUNNABLE = (126, 127)
_PYTEST_USAGE = 4
_PYTEST_NONE = 5
_PYTEST_REFUSES = re.compile(r"^(?:\x1b\[[\d;]*m)*ERROR: (.*)", re.MULTILINE)
_PYTEST_BROKEN = "ImportError while loading conftest"
_PLUGIN_MISSING = re.compile(r"Error importing plugin \"\S+\": No module named \S+\s*\Z")
_UNITTEST_NONE = re.compile(r"\nRan 0 tests in [\d.]+s\n\n(OK|NO TESTS RAN)\s*\Z")


def no_verdict_reason(result: ExecResult, limit_s: float) -> str | None:
    """Why this is no verdict of the tests at all; None when they passed or failed.

    Tests fail when they do not end within their own limit of `limit_s`. When they were stopped
    before, the time of their node was over.
    """
    if result.out_of_memory or hit_time_limit(result, limit_s):
        return None
    if result.launch_error or result.timed_out or result.out_of_disk:
        return command_result(result, ("the test command",)).error
    if result.exit_code in _SHELL_NOT_RUNNABLE:
        return f"a program is missing or not executable (exit code {result.exit_code})"
    text = result.text
    if _UNITTEST_NONE.search(text) or (
        result.exit_code == _PYTEST_NONE and "no tests ran in" in text
    ):
        return "no tests were found"
    return None if result.ok else _refused(result.exit_code, text)


def hit_time_limit(result: ExecResult, limit_s: float) -> bool:
    """True if the tests were stopped because they ran for `limit_s`."""
    return result.timed_out and result.duration_ms >= round(limit_s * 1000)


def _refused(exit_code: int, text: str) -> str | None:
    """Why pytest did not begin; None where it did, or where the code can mend it."""
    if _PLUGIN_MISSING.search(text):
        return "pytest misses a plugin that the project names: it is not in the image"
    if exit_code != _PYTEST_USAGE or _PYTEST_BROKEN in text:
        return None
    if "error: unrecognized arguments:" in text:
        return "pytest does not know an option of the project: a plugin is not in the image"
    said = _PYTEST_REFUSES.search(text)
    return f"pytest refused to begin: {said[1]}" if said else None
