"""Whether a test command said anything about the tests. Pure."""

import re

from contracts.sandbox import ExecResult
from nodes.commands import to_result

_SHELL_NOT_RUNNABLE = (126, 127)
_PYTEST_USAGE = 4
_PYTEST_NONE = 5
_UNITTEST_NONE = re.compile(r"\nRan 0 tests in [\d.]+s\n\n(OK|NO TESTS RAN)\s*\Z")


def not_run(result: ExecResult) -> str | None:
    """Why this is no verdict of the tests at all; None when they passed or failed."""
    if result.launch_error or result.timed_out or result.out_of_memory or result.out_of_disk:
        return to_result(result, ("the test command",)).error
    if result.exit_code in _SHELL_NOT_RUNNABLE:
        return f"a program is missing or not executable (exit code {result.exit_code})"
    text = result.text
    if result.exit_code == _PYTEST_USAGE and "error: unrecognized arguments:" in text:
        return "pytest does not know an option of the project: a plugin is not in the image"
    if result.exit_code == _PYTEST_NONE and "no tests ran in" in text:
        return "no tests were found"
    return "no tests were found" if _UNITTEST_NONE.search(text) else None
