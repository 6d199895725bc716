"""`python -m benchmarks.field [NAME …]`: two runs of `harness run fix-tests` on each project.

Prints what each run took and its phases in seconds, or why it was not green. A run that ends
before an agent is asked, with exit code 2 or 3, says what to do: it is counted by itself.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import NamedTuple

from benchmarks.field.fetch import FieldProject, NotFetched, field_projects, make_repository
from flows.config.environment import environment
from flows.config.settings import Settings
from flows.runs.runs import read_report
from flows.services import prefect_server

_TIMEOUT_S = 1800.0
_PHASES = ("install", "reproduce", "fix", "verify")


class FieldRun(NamedTuple):
    """One run: its outcome in a word, its seconds, those of its phases, and why it is not green."""

    outcome: str
    seconds: float
    phases: str
    why: str


def main(names: Sequence[str]) -> None:
    """Run the projects that are named, or all."""
    chosen = [one for one in field_projects() if not names or one.name in names]
    counts: Counter[str] = Counter()
    with TemporaryDirectory(prefix="harness-field-") as folder:
        settings = Settings(home=Path(folder) / "home", server_port=0)
        api = prefect_server.server_daemon(settings).up().url
        try:
            for project in chosen:
                counts[_print_both(project, Path(folder), api)] += 1
        finally:
            prefect_server.server_daemon(settings).down()
    total = len(chosen) - counts["not fetched"]
    print(
        f"{counts['green']} of {total} green; " + ", ".join(f"{n} {o}" for o, n in counts.items())
    )


def _print_both(project: FieldProject, place: Path, api: str) -> str:
    """Print the line of a project; return the outcome of its first run."""
    head = f"{project.language:<7}{project.name:<38}"
    work = place / f"of-{project.name}"
    work.mkdir()
    try:
        repository = make_repository(project, work)
    except NotFetched as error:
        print(f"{head}not fetched: {error}", flush=True)
        return "not fetched"
    first = _run(project, repository, place, api)
    second = _run(project, repository, place, api)
    for name, run in (("first", first), ("second", second)):
        print(
            f"{head}{name:<7}{run.outcome:<8}{run.seconds:6.1f} s  {run.phases}  {run.why}",
            flush=True,
        )
    return first.outcome if first.outcome != "green" else second.outcome


def _run(project: FieldProject, repository: Path, place: Path, api: str) -> FieldRun:
    script = place / f"{project.name}.jsonl"
    script.write_text(_fix(project))
    home = place / "home"
    before = set((home / "runs").glob("*"))
    variables = {
        "HARNESS_HOME": str(home),
        "HARNESS_MODEL": f"scripted/{script}",
        "PREFECT_API_URL": api,
    }
    began = monotonic()
    done = subprocess.run(
        (sys.executable, "-m", "app", "run", "fix-tests"),
        cwd=repository,
        env={**environment(), "PYTHONPATH": str(Path(__file__).parents[2]), **variables},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_TIMEOUT_S,
        check=False,
    )
    seconds = monotonic() - began
    outcome = {0: "green", 2: "asked", 3: "asked"}.get(done.returncode, "failed")
    last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    for folder in set((home / "runs").glob("*")) - before:
        report = read_report(home / "runs", folder.name)
        took = {node.name: node.duration_ms / 1000 for node in report.nodes}
        phases = " ".join(f"{name} {took[name]:.1f}" for name in _PHASES if name in took)
        failed = next((n.error for n in report.nodes if n.status == "failure"), None)
        return FieldRun(
            outcome, seconds, phases, (failed or report.error or "") if done.returncode else ""
        )
    return FieldRun(outcome, seconds, "", last)


def _fix(project: FieldProject) -> str:
    """Return the replies of an agent that knows the fix."""
    program = (
        "import pathlib, sys; p = pathlib.Path(sys.argv[1]); "
        "p.write_text(p.read_text().replace(sys.argv[2], sys.argv[3], 1))"
    )
    words = ("python3", "-c", program, project.file, project.wrong, project.right)
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    call = {"function": {"name": "bash", "arguments": {"command": quoted}}}
    replies = ({"content": "The bug is here.", "tool_calls": [call]}, {"content": "Fixed."})
    return "".join(json.dumps(reply) + "\n" for reply in replies)


if __name__ == "__main__":
    main(sys.argv[1:])
