"""A run that waits for a person, from the command line: exit 4, a list, a decision, and on."""

import json
from pathlib import Path

import pytest

from tests.support.app import Harness
from tests.support.repositories import git

pytestmark = [pytest.mark.docker, pytest.mark.prefect]

CI = ".github/workflows/ci.yml"
BLUEPRINT = """
from blueprints.dsl import agentic, blueprint
changes = blueprint("changes", "Changes", [agentic("work", "work", prompt=lambda ctx: "go")])
"""


def test_a_run_waits_is_approved_and_goes_on(
    harness: Harness, started: Harness, repository: Path, tmp_path: Path, prefect_api: str
) -> None:
    (tmp_path / "mine.py").write_text(BLUEPRINT)
    arguments = json.dumps({"path": CI, "content": "on: push\n"})
    asks = {"tool_calls": [{"function": {"name": "write_file", "arguments": arguments}}]}
    replies = [{"content": "", **asks}, {"content": "Later."}, {"content": "", **asks},
               {"content": "Done."}]  # fmt: skip
    (tmp_path / "replies.jsonl").write_text("".join(json.dumps(one) + "\n" for one in replies))
    env = {"PREFECT_API_URL": prefect_api}
    issue = tmp_path / "issue.md"
    issue.write_text(f"Please change {CI} so that it runs on push.")

    first = harness(
        "run", "mine.py:changes", "--repo", str(repository), "--model", "scripted/replies.jsonl",
        "--intent-from", str(issue), "--untrusted", "--json", env=env,
    )  # fmt: skip
    report = json.loads(first.stdout)
    assert (first.returncode, report["status"]) == (4, "waiting"), first.stderr
    (waiting,) = json.loads(started("approvals", "list", "--json", env=env).stdout)
    assert (waiting["node"], waiting["agent"], waiting["argument"]) == ("work", "native", "/path")
    assert set(waiting["provenance"]) >= {"repo:repository"}
    said = harness("approvals", "approve", waiting["id"][:6], env=env)
    assert f"harness runs resume {report['run_id']}" in said.stdout
    again = harness("approvals", "approve", waiting["id"], env=env)
    assert (again.returncode, "is approved by" in again.stderr) == (2, True)
    done = harness("runs", "resume", report["run_id"], "--json", env=env)
    last = json.loads(done.stdout)
    assert (done.returncode, last["status"]) == (0, "success"), done.stderr
    assert git(repository, "show", f"{last['branch']}:{CI}") == "on: push"
