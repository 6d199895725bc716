"""Failing tests as text for agents and people: the few that matter."""

from collections.abc import Iterator

from contracts.verdicts import FailedTest, Verdicts

_SHOWN = 10
"""Failing tests that are shown with their message."""

_NAMED = 50
_TAIL = 4_000
_LONG_TAIL = 16_000
"""Characters of output where it has what the messages lack, such as the stacks of a hang."""


def for_agent(verdicts: Verdicts, output: str, *, ended: bool) -> str:
    """Return the failing tests with their messages, what to leave alone, and the output's end.

    `ended` is False if the test command was killed.
    """
    return "\n\n".join(part for part in _parts(verdicts, output, ended) if part)


def _parts(verdicts: Verdicts, output: str, ended: bool) -> Iterator[str]:
    yield f"Results by test: {verdicts}"
    for test in verdicts.failed[:_SHOWN]:
        yield f"FAILED {test.name}\n{test.message}".rstrip()
    yield _list("These fail too:", verdicts.failed[_SHOWN:])
    yield _list(
        "Not to be fixed, because this machine is the reason (environment):", verdicts.environment
    )
    yield _list("Not to be fixed, because they failed before:", verdicts.failed_before)
    if verdicts.flaky:
        yield "Flaky (failed, then passed unchanged): " + ", ".join(verdicts.flaky[:_NAMED])
    told = ended and verdicts.failed and all(test.message for test in verdicts.failed[:_SHOWN])
    tail = output[-(_TAIL if told else _LONG_TAIL) :].strip()
    yield f"The end of what the test command printed:\n{tail}" if tail else ""


def _list(title: str, tests: tuple[FailedTest, ...]) -> str:
    if not tests:
        return ""
    lines = [f"- {test.name}{_reason(test)}" for test in tests[:_NAMED]]
    more = len(tests) - _NAMED
    return "\n".join([title, *lines, *([f"- and {more} more"] if more > 0 else [])])


def _reason(test: FailedTest) -> str:
    is_reason = test.message and "\n" not in test.message
    return f": {test.message}" if is_reason else ""
