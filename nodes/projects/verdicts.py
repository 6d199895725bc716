"""Which failing tests are the agent's to fix, judged by test.

A test that also fails at a commit known to be good, or for a missing tool, network, service or
display, is called *environment*. A test that fails and then passes unchanged is called *flaky*.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from contracts.errors import OptionInvalid
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from contracts.verdicts import FailedTest, Verdicts
from nodes.changes import NamedCommit, check_out, earlier_commits, named_commit
from nodes.checks import missing_programs_among
from nodes.projects.cases import Case, Cases
from nodes.projects.ecosystems import package_of
from nodes.projects.show_tests import for_agent
from nodes.projects.testing import ProjectTestResult, exec_tests

GOOD_OPTION = "good"
GOOD_OPTIONS = {
    GOOD_OPTION: "tag or commit in HEAD's history where the tests pass; default: the newest tag, "
    "or else where HEAD left a main branch",
}

RERUN_WITHIN_S = 60.0
"""A test run that took longer is not repeated before the agent begins, only to find flaky tests."""

_MAX_FAILED = 1_000
_MAX_MESSAGES = 50
_SIGNS = {
    "there is no network": re.compile(
        r"Temporary failure in name resolution|Name or service not known|Network is unreachable"
        r"|getaddrinfo (?:EAI_AGAIN|ENOTFOUND)|dial tcp: lookup |Could not resolve host"
        r"|UnknownHostException|No route to host"
    ),
    "there is no display": re.compile(
        r"[Cc]annot open display|no display name and no \$DISPLAY|HeadlessException"
        r"|could not connect to display|Missing X server or \$DISPLAY"
    ),
}
_SERVICES = {
    "5432": "PostgreSQL", "3306": "MySQL", "6379": "Redis", "27017": "MongoDB", "5672": "RabbitMQ",
    "9200": "Elasticsearch", "9092": "Kafka", "11211": "memcached", "1433": "SQL Server",
}  # fmt: skip
_NO_SERVICE = re.compile(r"(?i)refused|can't connect|could not connect")
_PORT = re.compile(rf"\b({'|'.join(_SERVICES)})\b")
_NO_TKINTER = re.compile(r"No module named '_?tkinter'")
_LAUNCHES = re.compile(
    r"_execute_child(?:.|\n)*No such file or directory: ['\"]([\w.+-]+)['\"]"
    r"|spawn ([\w.+-]+) ENOENT|exec: \"([\w.+-]+)\": executable file not found in \$PATH"
    r"|Cannot run program \"([\w.+-]+)\"|: (?:\d+: )?([\w.+-]+): (?:command )?not found"
    r"|ENOENT: No such file or directory - ([\w.+-]+)"
)
"""How languages say that a program, named in one of the groups, cannot be started."""


class _Reference(NamedTuple):
    name: str
    cases: Cases


def judge_failing(tests: ProjectTestResult, ctx: RunContext, sandbox: Sandbox) -> Verdicts:
    """Sort the failing tests of a run that no agent has worked on yet.

    The tests may run again: unchanged, and at an earlier commit. The files stay as they are.

    Raises:
        OptionInvalid: the option `good` names no commit in the sandbox.
    """
    good = _asked_reference(ctx, sandbox)
    failing = _failing(tests.cases)
    flaky: set[str] = set()
    if failing and tests.ended and tests.duration_ms <= RERUN_WITHIN_S * 1000:
        flaky = _passing(exec_tests(ctx, sandbox), failing)
        failing = {name: case for name, case in failing.items() if name not in flaky}
    signs = _signs(failing, sandbox)
    candidates = [good] if good else earlier_commits(sandbox) if signs or failing else []
    reference = None
    # Without `good`, a single failing test can only be told from others by how it fails.
    if good or signs or len(failing) > 1:
        reference = _find_reference(candidates, failing, ctx, sandbox)
    environment = {**signs, **(_like_at(reference, failing) if reference else {})}
    if reference:
        passed_there = {n for n in failing if _status(reference.cases, n) == "passed"}
        environment = {n: why for n, why in environment.items() if n not in passed_there}
    return Verdicts(
        passed=_count(tests.cases, "passed"),
        skipped=_count(tests.cases, "skipped"),
        failed=_failed((n, c) for n, c in failing.items() if n not in environment),
        environment=tuple(FailedTest(name=n, message=why) for n, why in environment.items()),
        flaky=tuple(sorted(flaky)),
        reference=reference.name if reference else "",
    )


def judge_again(
    tests: ProjectTestResult, before: Verdicts | None, ctx: RunContext, sandbox: Sandbox
) -> NodeResult:
    """Judge a test run after the agent's work, by the verdicts `before` it.

    Tests of `before.failed` must pass now, and no other test may fail except those of
    `before.environment` and `before.failed_before`. Without results by test the exit code decides.
    """
    if not tests.verdict or not tests.cases:
        return tests.result
    known = before or Verdicts()
    excused = {test.name: test for test in (*known.environment, *known.failed_before)}
    wanted = {test.name for test in known.failed}
    failing = _failing(tests.cases)
    flaky: set[str] = set()
    if tests.ended and failing.keys() - excused.keys() - wanted:
        # A test that failed before may pass by chance now, so it must pass at once.
        flaky = _passing(exec_tests(ctx, sandbox), failing) - wanted - excused.keys()
    left = {n: c for n, c in failing.items() if n not in excused and n not in flaky}
    left |= _not_run(tests.cases, known)
    fixed = {name for name in wanted if _status(tests.cases, name) == "passed"}
    verdicts = Verdicts(
        passed=_count(tests.cases, "passed"),
        skipped=_count(tests.cases, "skipped"),
        failed=_failed(left.items()),
        environment=tuple(t for t in known.environment if t.name in failing),
        failed_before=tuple(t for t in known.failed_before if t.name in failing),
        flaky=tuple(sorted({*known.flaky, *flaky})),
        fixed=tuple(sorted(fixed)),
        reference=known.reference,
    )
    return _judged(tests, verdicts, known)


def _judged(tests: ProjectTestResult, verdicts: Verdicts, before: Verdicts) -> NodeResult:
    by_exit_code = tests.result
    # The failing tests explain the exit code only if all tests ran.
    whole = tests.ended and verdicts.passed >= before.passed
    explained = bool(verdicts.environment or verdicts.failed_before or verdicts.flaky) and whole
    if not verdicts.failed and (by_exit_code.status == "success" or explained):
        passed = NodeResult.success(f"{verdicts}\n\n{by_exit_code.output}")
        return replace(passed, tests=verdicts)
    error = by_exit_code.error or "the tests that failed before do not pass now"
    failed = NodeResult.failure(error, for_agent(verdicts, by_exit_code.output, ended=tests.ended))
    return replace(failed, tests=verdicts)


def failed_before(tests: ProjectTestResult) -> Verdicts:
    """Return the verdicts of a test run before an agent that need not fix what fails in it."""
    return Verdicts(
        passed=_count(tests.cases, "passed"),
        skipped=_count(tests.cases, "skipped"),
        failed_before=_failed(_failing(tests.cases).items()),
    )


def _not_run(cases: Cases, before: Verdicts) -> Iterator[tuple[str, Case]]:
    """Yield tests that failed before and did not run now.

    A failure that stands for a whole file, such as a syntax error, disappears when it is fixed,
    but then more tests pass than before.
    """
    passed = _count(cases, "passed")
    absent = [test.name for test in before.failed if test.name not in cases]
    fixed = sum(_status(cases, test.name) == "passed" for test in before.failed)
    if passed and passed - before.passed - fixed < len(absent):
        yield from ((n, Case("failed", "it failed before and does not exist now")) for n in absent)
    for test in before.failed:
        if _status(cases, test.name) == "skipped":
            yield test.name, Case("failed", "it failed before and is skipped now")


def _asked_reference(ctx: RunContext, sandbox: Sandbox) -> NamedCommit | None:
    asked = ctx.options.get(GOOD_OPTION)
    if not asked:
        return None
    if found := named_commit(asked, sandbox):
        return found
    raise OptionInvalid(
        f"--set {GOOD_OPTION}={asked}: no such commit in the sandbox. It must be a tag or a commit "
        "in the history of the commit that the run starts from"
    )


def _find_reference(
    candidates: Iterable[NamedCommit],
    failing: Cases,
    ctx: RunContext,
    sandbox: Sandbox,
) -> _Reference | None:
    """Return the first commit where a failing test passed; a commit that the user names counts."""
    for commit in candidates:
        cases = _cases_at(commit.commit, ctx, sandbox)
        passed = any(_status(cases, name) == "passed" for name in failing)
        if cases and (passed or ctx.options.get(GOOD_OPTION)):
            return _Reference(commit.name, cases)
    return None


def _cases_at(commit: str, ctx: RunContext, sandbox: Sandbox) -> Cases:
    saved = sandbox.snapshot()
    try:
        if check_out(commit, sandbox).status == "failure":
            return {}
        tests = exec_tests(ctx, sandbox)
        return tests.cases if tests.ended else {}
    finally:
        sandbox.restore(saved)


def _like_at(reference: _Reference, failing: Cases) -> Mapping[str, str]:
    return {
        name: f"it fails likewise at {reference.name}"
        for name, case in failing.items()
        if _status(reference.cases, name) == "failed"
        and _symptom(case.message) == _symptom(reference.cases[name].message)
    }


def _symptom(message: str) -> str:
    """Return what two failures for the same reason have in common."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E ")] or lines[-1:]
    return re.sub(r"0x[0-9a-fA-F]+|/\S+/|\d+", "…", "\n".join(errors))


def _signs(failing: Cases, sandbox: Sandbox) -> dict[str, str]:
    """Return the tests whose failure names a missing tool, network or display, with the reason."""
    launched = {name: _launched(case.message) for name, case in failing.items()}
    programs = dict.fromkeys(program for program in launched.values() if program)
    missing = missing_programs_among(sandbox, *programs) if programs else ()
    signs = {n: f"the sandbox has no {p}" for n, p in launched.items() if p and p in missing}
    for name, case in failing.items():
        if reason := _absent(case.message):
            signs.setdefault(name, reason)
    return signs


def _absent(message: str) -> str | None:
    """Return what the sandbox has not, if the message of a failing test says so."""
    if port := _NO_SERVICE.search(message) and _PORT.search(message):
        return f"there is no {_SERVICES[port[1]]} (port {port[1]})"
    if _NO_TKINTER.search(message):
        return "the sandbox has no tkinter"
    return next((why for why, sign in _SIGNS.items() if sign.search(message)), None)


def environment_message(tests: Sequence[FailedTest]) -> str:
    """Return the error for a run whose failing tests are all of the environment."""
    reasons = list(dict.fromkeys(test.message for test in tests))
    count = "the failing test fails" if len(tests) == 1 else f"all {len(tests)} failing tests fail"
    more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return (
        f"{count} because of the environment: {reasons[0]}{more}, as in {tests[0].name!r}. "
        f"{_advice(reasons[0])}. If the code is the reason, name a commit where the tests pass: "
        "--good REF"
    )


def _advice(reason: str) -> str:
    """Return what a user can do about a reason of the environment."""
    if reason == "there is no display":
        return (
            "Give them one: --set packages='xvfb xauth' --set test='xvfb-run -a COMMAND', where "
            "COMMAND runs the tests"
        )
    if reason == "there is no network":
        return (
            "Leave these tests out with --set test=COMMAND, or name the hosts in [sandbox] egress"
        )
    if reason.startswith("there is no "):
        return (
            "A sandbox has no services: leave these tests out with --set test=COMMAND, or let "
            "COMMAND start the service and --set packages=PACKAGE install it"
        )
    if program := reason.partition("the sandbox has no ")[2]:
        package = package_of(program) or program
        return f"Add the Debian package that has it: --set packages={package}"
    return "What fails there too is not for the agent to fix"


def _launched(message: str) -> str | None:
    found = _LAUNCHES.search(message)
    return next(filter(None, found.groups()), None) if found else None


def _passing(tests: ProjectTestResult, names: Iterable[str]) -> set[str]:
    return {name for name in names if _status(tests.cases, name) == "passed"}


def _failing(cases: Cases) -> dict[str, Case]:
    return {name: case for name, case in cases.items() if case.status == "failed"}


def _failed(cases: Iterable[tuple[str, Case]]) -> tuple[FailedTest, ...]:
    listed = sorted(cases)[:_MAX_FAILED]
    return tuple(
        FailedTest(name=name, message=case.message if number < _MAX_MESSAGES else "")
        for number, (name, case) in enumerate(listed)
    )


def _status(cases: Cases, name: str) -> str | None:
    return cases[name].status if name in cases else None


def _count(cases: Cases, status: str) -> int:
    return sum(case.status == status for case in cases.values())
