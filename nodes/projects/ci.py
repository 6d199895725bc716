"""How a repository's CI tests it: one plain line of a test job of GitHub Actions or GitLab CI.

The files are data: nothing of them is executed here. A line that needs a shell, a variable or an
expression is left alone, and so is a step with settings of its own.
"""

import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

import yaml

from contracts.json import as_mapping, as_mappings
from nodes.projects.types import ParsedTable, ProjectFiles, table_at

_WORKFLOW = re.compile(r"\.github/workflows/[^/]+\.ya?ml")
_GITLAB = ".gitlab-ci.yml"
_MOST_FILES = 20
_TEST_JOB = re.compile(r"(?i)(?<![a-z])tests?(?![a-z])")
_TESTS = re.compile(r"(?i)(?<![a-z])(py|c|unit)?tests?(?![a-z])|\b(rspec|phpunit|prove|tox|nox)\b")
_ELSEWHERE = re.compile(r"(?i)windows|macos")
_NOT_TESTS = re.compile(r"(?i)install|deploy|publish|upload|docker|^\s*(echo|cd|sudo|git)\b")
_PLAIN = re.compile(r"[\w./:=@,+ '\"-]+")
_OWN_SETTINGS = ("env", "working-directory", "shell", "if")


class CiTest(NamedTuple):
    """A line of CI that tests the project, and where it is."""

    argv: tuple[str, ...]
    where: str


def ci_test(files: ProjectFiles) -> CiTest | None:
    """Return the first plain line that tests the project in a job whose name says test."""
    return next(filter(None, (_test(line, where) for line, where in _lines(files))), None)


def _test(line: str, where: str) -> CiTest | None:
    line = line.strip()
    if not _PLAIN.fullmatch(line) or not _TESTS.search(line) or _NOT_TESTS.search(line):
        return None
    try:
        return CiTest(tuple(shlex.split(line)), where)
    except ValueError:
        return None


def _lines(files: ProjectFiles) -> Iterator[tuple[str, str]]:
    workflows = sorted(filter(_WORKFLOW.fullmatch, files.paths))[:_MOST_FILES]
    for name in workflows:
        for job_name, job in table_at(_yaml(files, name), "jobs").items():
            runs_here = not _ELSEWHERE.search(str(as_mapping(job).get("runs-on")))
            if runs_here and _TEST_JOB.search(f"{job_name} {name}"):
                for step in as_mappings(as_mapping(job).get("steps")):
                    line = step.get("run")
                    if isinstance(line, str) and not any(one in step for one in _OWN_SETTINGS):
                        yield line, f"the job {job_name} of {name}"
    for job_name, job in _yaml(files, _GITLAB).items():
        if _TEST_JOB.search(f"{job_name} {as_mapping(job).get('stage', '')}"):
            script = as_mapping(job).get("script")
            for line in script if isinstance(script, list) else [script]:
                if isinstance(line, str):
                    yield line, f"the job {job_name} of {_GITLAB}"


def _yaml(files: ProjectFiles, name: str) -> ParsedTable:
    try:
        return as_mapping(yaml.safe_load(files.text(name)))
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
