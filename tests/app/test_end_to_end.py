"""Whole runs: real containers, a real Prefect server, the command line as a process."""

import json
from pathlib import Path

import pytest

from app.demo.request import make_repository
from flows.config.settings import load_settings
from flows.execution.wiring import docker_engine, sandbox_owner
from sandbox.reap import list_sandboxes
from tests.support.app import Harness
from tests.support.repositories import fingerprint, git
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.prefect]

WRONG = [
    {"content": "", "tool_calls": [{"function": {"name": "edit_file", "arguments": {
        "path": "opening_hours.py", "old": "<= span.end", "new": "== span.end"}}}]},
    {"content": "It is fixed."},
    {"content": "Now it is."},
    {"content": "And now."},
]  # fmt: skip
"""A fix that is none, and two more rounds of talk."""


@pytest.fixture(autouse=True)
def api(prefect_api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", prefect_api)


@pytest.fixture
def hours(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "opening-hours")


def containers() -> int:
    """How many sandboxes of this test's home there are."""
    return len(list_sandboxes(docker_engine(), sandbox_owner(load_settings())))


def test_a_run_is_replayed_in_a_sandbox_without_a_model(
    harness: Harness, hours: Path, tmp_path: Path
) -> None:
    script = tmp_path / "wrong.jsonl"
    script.write_text("".join(json.dumps(reply) + "\n" for reply in WRONG))
    args = ("--model", "scripted/wrong.jsonl", "--set", "install=true", "--json")
    report = json.loads(harness("run", "fix-tests", "--repo", str(hours), *args).stdout)
    script.unlink()
    done = harness("runs", "replay", report["run_id"])
    assert done.returncode == 0
    assert done.stdout.startswith("identical steps, and identical files (tree ")


def test_a_wrong_fix_runs_its_rounds_and_fails_with_the_work_kept(
    started: Harness, hours: Path, tmp_path: Path
) -> None:
    script = tmp_path / "wrong.jsonl"
    script.write_text("".join(json.dumps(reply) + "\n" for reply in WRONG))
    origin = tmp_path / "origin.git"
    git(tmp_path, "init", "--quiet", "--bare", str(origin))
    git(hours, "remote", "add", "origin", str(origin))
    before = fingerprint(hours)
    model = f"scripted/{script}"
    done = started("run", "fix-tests", "--repo", str(hours), "--model", model, "--push", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["status"], report["pushed"]) == (1, "failure", False)
    verify = next(node for node in report["nodes"] if node["name"] == "verify")
    assert len(verify["attempts"]) == 3
    assert git(origin, "branch", "--list") == ""
    assert "== span.end" in git(hours, "show", f"{report['branch']}:opening_hours.py")
    assert fingerprint(hours) == before
    assert containers() == 0


def test_a_blueprint_of_ones_own_is_run_from_its_file(
    harness: Harness, repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "ops.py").write_text(
        "from blueprints.dsl import blueprint, deterministic\n"
        "from nodes.commands import shell\n"
        "answer = blueprint('answer', 'Answer', [\n"
        "    deterministic('write', 'write it', shell('echo 42 > answer.txt'))])\n"
    )
    report = json.loads(harness("run", "ops.py:answer", "--repo", "repository", "--json").stdout)
    assert git(repository, "show", f"{report['branch']}:answer.txt") == "42"


BUGGY = """
import os
from blueprints.dsl import blueprint, deterministic
from nodes.commands import shell

print("loaded")

def divide(ctx, sandbox):
    print("dividing")
    os.system("echo from a program")
    return 1 / 0

buggy = blueprint("buggy", "Has a bug", [
    deterministic("write", "write it", shell("echo 42 > answer.txt")),
    deterministic("divide", "has a bug", divide)])
"""


def test_a_bug_of_a_blueprint_is_told_with_its_node_its_line_and_the_report(
    harness: Harness, asked: Harness, repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "ops.py").write_text(BUGGY)
    done = harness("run", "ops.py:buggy", "--repo", "repository", "--json")
    report = json.loads(done.stdout)
    raised = "node 'divide' of the blueprint raised ZeroDivisionError: division by zero"
    assert (done.returncode, report["status"]) == (1, "failure")
    assert report["error"] == f"{raised} ({tmp_path / 'ops.py'}:11)"
    assert report["failed_node"] == report["nodes"][-1]["name"] == "divide"
    assert report["nodes"][-1]["error"] == report["error"]
    assert f"error: {report['error']}\n" in done.stderr
    assert {"loaded", "dividing", "from a program"} <= set(done.stderr.splitlines())
    assert git(repository, "show", f"{report['branch']}:answer.txt") == "42"
    diff = json.loads(asked("runs", "diff", report["run_id"], "--json").stdout)
    assert "+42\n" in diff.pop("diff")
    assert diff == {name: report[name] for name in diff}


def test_a_detached_run_goes_on_by_itself(
    harness: Harness, asked: Harness, repository: Path, tmp_path: Path, own_home: Path
) -> None:
    issue = tmp_path / "issue.txt"
    issue.write_text("It must say 42.")
    (tmp_path / "ops.py").write_text(
        "from blueprints.dsl import blueprint, deterministic\n"
        "from nodes.commands import shell\n"
        "answer = blueprint('answer', 'Answer', [deterministic('a', 'a', shell('true'))])\n"
    )
    given = ("--repo", "repository", "--intent-from", str(issue))
    args = ("run", *given, "--detach", "--json", "--", "ops.py:answer")
    run_id = json.loads(harness(*args).stdout)["run_id"]
    issue.unlink()
    shown = ("runs", "show", run_id, "--json")
    wait_until(lambda: json.loads(asked(*shown).stdout).get("status") == "success")
    assert json.loads(asked(*shown).stdout)["intent"] == "It must say 42."
    assert not list((own_home / "logs").glob("*.intent"))
