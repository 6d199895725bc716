"""What makes test runners tell their results by test, and where the results are then found."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from contracts.errors import SandboxFileError
from contracts.json import as_mapping, as_mappings, text_at
from contracts.run import RunContext
from contracts.sandbox import Command, ExecResult, Sandbox
from nodes.node_sandbox import discard_output
from nodes.projects.cases import Case, Cases, CaseStatus, collect
from nodes.projects.junit import junit_cases
from nodes.projects.text_results import ant_cases, text_cases
from nodes.projects.types import Project

OUTPUT_LIMIT = 2 * 1024 * 1024
"""Bytes kept of each stream of a test command: results of thousands of tests in text."""

_FOLDER = ".git/harness-tests"
_MAX_FILE = 16 * 1024 * 1024
_MAX_FILES = 1_000
_PREPARE = f"test -d .git && rm -rf {_FOLDER} && mkdir {_FOLDER} && touch {_FOLDER}/began"

_RESULT_FILES = (
    f"./{_FOLDER}/*.xml",
    f"./{_FOLDER}/*.json",
    "*/surefire-reports/TEST-*.xml",
    "*/failsafe-reports/TEST-*.xml",
    "*/build/test-results/*/TEST-*.xml",
    "*/meson-logs/*.junit.xml",
)
_WANTED = [word for path in _RESULT_FILES for word in ("-path", path, "-o")][:-1]
_FIND = (
    "find", ".", "-name", "node_modules", "-prune", "-o", "-type", "f", "-newer",
    f"{_FOLDER}/began", "(", *_WANTED, ")", "-print0",
)  # fmt: skip


class _Addition(NamedTuple):
    """Arguments inserted after the words of a command that match, joined by spaces."""

    words: str
    arguments: tuple[str, ...]


_ADDITIONS = (
    _Addition(r"(\S*/)?python[\d.]* -m unittest( discover)?", ("-v",)),
    _Addition(r"(\S*/)?go test", ("-v",)),
    _Addition(r"(\S*/)?cargo test", ("--no-fail-fast",)),
    _Addition(r"(\S*/)?(bundle exec )?rake test", ("TESTOPTS=-v",)),
    _Addition(r"(\S*/)?phpunit", ("--log-junit", f"{_FOLDER}/phpunit.xml")),
)
"""Each also makes the runner print every test, so that its silence means that it is stuck."""

_PRINTS_EACH_TEST = re.compile(r"(\S*/)?(python[\d.]* -m )?pytest|node( \S+)* --test")
_OPTIONS_ENV = {
    "PYTEST_ADDOPTS": f"--junitxml={{work_dir}}/{_FOLDER}/pytest.xml -o junit_family=xunit1",
    "SPEC_OPTS": f"--format progress --format json --out {{work_dir}}/{_FOLDER}/rspec.json",
}
"""Variables work behind make and npm too. They are added to what the project sets."""

_PLAIN_ENV = {"CTEST_OUTPUT_ON_FAILURE": "1", "PYTHONFAULTHANDLER": "1"}

_RSPEC: Mapping[str, CaseStatus] = {"passed": "passed", "failed": "failed"}


class RunnerCommand(NamedTuple):
    """A test command. `by_test` is False if the results by test cannot be collected in files.

    `prints_each_test`: the runner is known to print something for every test.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    by_test: bool
    prints_each_test: bool


def runner_command(project: Project, ctx: RunContext, sandbox: Sandbox) -> RunnerCommand:
    """Return the project's test command, changed so that the runner tells results by test."""
    argv = project.test or ()
    ready = sandbox.exec(Command(argv=("sh", "-c", _PREPARE)), discard_output).ok
    given = {**ctx.env, **project.env}
    options = {
        name: f"{given.get(name, '')} {value.format(work_dir=shlex.quote(ctx.work_dir))}".strip()
        for name, value in _OPTIONS_ENV.items()
    }
    env = {**_PLAIN_ENV, **project.env, **(options if ready else {})}
    line = " ".join(argv)
    known = next((one for one in _ADDITIONS if re.match(rf"{one.words}(?= |$)", line)), None)
    prints = known is not None or bool(re.match(rf"({_PRINTS_EACH_TEST.pattern})(?= |$)", line))
    if known is not None and (ready or _FOLDER not in " ".join(known.arguments)):
        found = re.match(known.words, line)
        after = len(found[0].split()) if found else 0
        argv = (*argv[:after], *known.arguments, *argv[after:])
    return RunnerCommand(argv, env, ready, prints)


def refuses_additions(result: ExecResult) -> bool:
    """Return True if the runner did not start because of what was added to its command."""
    return not result.ok and bool(
        re.search(
            rf"(unrecognized arguments|unknown option|invalid option).*{_FOLDER}", result.text
        )
    )


class Results(NamedTuple):
    """Results by test; empty if the runner tells none.

    If they are a `report` of the build tool, failures in it count, whatever the exit code: Maven,
    Gradle and ant can be told to go on after failing tests.
    """

    cases: Cases
    report: bool

    @property
    def failed(self) -> int:
        """The number of failed tests in the report."""
        return sum(case.status == "failed" for case in self.cases.values()) if self.report else 0


def read_results(result: ExecResult, sandbox: Sandbox, *, by_test: bool) -> Results:
    """Return the results by test from files, or else from the output."""
    found = (collect(_file_cases(sandbox)) if by_test else {}) or ant_cases(result.text)
    if found or result.truncated:
        return Results(found, report=bool(found))
    return Results(text_cases(result.text), report=False)


def _file_cases(sandbox: Sandbox) -> Iterator[tuple[str, Case]]:
    listed = sandbox.exec(Command(argv=_FIND, output_limit=1024 * 1024), discard_output)
    names = [name for name in listed.stdout.decode("utf-8", "replace").split("\0") if name]
    left = _MAX_FILE
    for name in sorted(names)[:_MAX_FILES]:
        try:
            data = sandbox.read_file(name, left)
        except SandboxFileError:
            continue
        left -= len(data)
        yield from _rspec_cases(data) if name.endswith(".json") else junit_cases(data)


def _rspec_cases(data: bytes) -> Iterator[tuple[str, Case]]:
    try:
        report = as_mapping(json.loads(data))
    except (ValueError, RecursionError):
        return
    for example in as_mappings(report.get("examples")):
        status = _RSPEC.get(text_at(example, "status"), "skipped")
        yield (
            text_at(example, "full_description"),
            Case(status, text_at(example, "exception", "message")),
        )
