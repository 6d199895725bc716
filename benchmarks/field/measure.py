"""One run of `harness run fix-tests` on a project, with an agent that knows the fix."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Literal

from pydantic import BaseModel

from benchmarks.field.fetch import FieldProject
from contracts.run import RunReport
from flows.config.environment import environment
from flows.runs.runs import read_report

_TIMEOUT_S = 3600.0
_BAD_INPUT_OR_UNAVAILABLE = (2, 3)
_NO_BUG = "its tests pass with the bug"
_PHASES = ("project", "install", "reproduce", "fix", "verify")

Outcome = Literal["green", "told", "failed"]
"""`told`: it ended before an agent was asked, with the exit code of a line that says what to do."""


class FieldRun(BaseModel, frozen=True, extra="forbid"):
    """A run: its outcome, seconds in all and by node, its commands, and why it is not green."""

    outcome: Outcome
    exit_code: int
    seconds: float
    phases: dict[str, float]
    tested_with: str = ""
    why: str = ""

    def __str__(self) -> str:
        """Return what a person reads in the table of results."""
        phases = " ".join(f"{name} {took:.1f}" for name, took in self.phases.items())
        return f"{self.outcome:<7}{self.seconds:6.1f} s  {phases}  {self.why}".rstrip()


def fix_tests(project: FieldProject, repository: Path, home: Path, api: str) -> FieldRun:
    """Start the run as a user would: in the repository, without an option."""
    script = home.parent / f"{project.name}.jsonl"
    script.write_text(_fix(project))
    before = set((home / "runs").glob("*"))
    began = monotonic()
    done = harness(
        ("run", "fix-tests"),
        repository,
        {
            "HARNESS_HOME": str(home),
            "HARNESS_MODEL": f"scripted/{script}",
            "PREFECT_API_URL": api,
        },
    )
    seconds = monotonic() - began
    made = set((home / "runs").glob("*")) - before
    report = read_report(home / "runs", made.pop().name) if made else None
    printed = [line for line in done.stderr.splitlines() if line.strip()]
    ran = [n for n in report.nodes if n.status != "skipped"] if report else []
    took = {n.name: n.duration_ms / 1000 for n in ran}
    return FieldRun(
        outcome=outcome_of(done.returncode, agent_worked="fix" in took),
        exit_code=done.returncode,
        seconds=seconds,
        phases={name: took[name] for name in _PHASES if name in took},
        tested_with=_test_command(report),
        why=_why(report, printed) if done.returncode else "" if "fix" in took else _NO_BUG,
    )


def harness(
    words: tuple[str, ...], folder: Path, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the command line in this folder."""
    return subprocess.run(
        (sys.executable, "-m", "app", *words),
        cwd=folder,
        env={**environment(), "PYTHONPATH": str(Path(__file__).parents[2]), **variables},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_TIMEOUT_S,
        check=False,
    )


def outcome_of(exit_code: int, *, agent_worked: bool) -> Outcome:
    """Return the outcome of a run with this exit code."""
    if exit_code == 0 and agent_worked:
        return "green"
    return "told" if exit_code in _BAD_INPUT_OR_UNAVAILABLE and not agent_worked else "failed"


def _why(report: RunReport | None, printed: list[str]) -> str:
    failed = next((n.error for n in report.nodes if n.error), None) if report else None
    return failed or (report.error if report else None) or (printed or ["it said nothing"])[-1]


def _test_command(report: RunReport | None) -> str:
    outputs = (n.output for n in report.nodes if n.name == "project") if report else ()
    lines = [line for output in outputs for line in output.splitlines()]
    return next((line.removeprefix("test: ") for line in lines if line.startswith("test: ")), "")


def fix_program(project: FieldProject) -> str:
    """Return the shell line of an agent that knows the fix."""
    program = (
        "import pathlib, sys; p = pathlib.Path(sys.argv[1]); "
        "p.write_text(p.read_text().replace(sys.argv[2], sys.argv[3], 1))"
    )
    return shlex.join(("python3", "-c", program, project.file, project.wrong, project.right))


def _fix(project: FieldProject) -> str:
    """Return the replies of an agent that knows the fix."""
    call = {"function": {"name": "bash", "arguments": {"command": fix_program(project)}}}
    replies = ({"content": "The bug is here.", "tool_calls": [call]}, {"content": "Fixed."})
    return "".join(json.dumps(reply) + "\n" for reply in replies)
