"""The shipped `claude` and `pi` do a whole run, in the hardened container, by the command line."""

import json
from pathlib import Path

import pytest

from app.demo.request import make_repository
from tests.agents.calls import reply, shell
from tests.app.conftest import Harness
from tests.flows.repositories import git

pytestmark = [pytest.mark.docker, pytest.mark.prefect]


@pytest.mark.parametrize("agent", ["claude-code", "pi"])
def test_a_real_agent_fixes_the_test_and_its_work_is_on_the_branch(
    harness: Harness, tmp_path: Path, prefect_api: str, agent: str
) -> None:
    repository = make_repository(tmp_path / "opening-hours")
    mend = "sed -i 's/hour <= span.end/hour < span.end/' opening_hours.py"
    replies = [
        reply("It includes the end.", shell(agent, mend)),
        reply("A shop is closed now."),
    ]
    (tmp_path / "replies.jsonl").write_text("".join(json.dumps(r) + "\n" for r in replies))
    args = ("run", "fix-tests", "--repo", str(repository), "--agent", agent, "--json")
    done = harness(*args, "--model", "scripted/replies.jsonl", env={"PREFECT_API_URL": prefect_api})
    report = json.loads(done.stdout)
    assert (done.returncode, report["status"]) == (0, "success"), report
    assert report["agent"] == agent
    assert report["token_usage"]["output"] > 0
    (mend,) = (node for node in report["nodes"] if node["turns"])
    assert (mend["turns"], list(mend["tool_calls"].values())) == (2, [1])
    assert mend["usage"]["cost_usd"] == pytest.approx(0.002)
    assert "hour < span.end" in git(repository, "show", f"{report['branch']}:opening_hours.py")
    said = harness("runs", "show", report["run_id"], "--trajectory").stdout
    assert "A shop is closed now." in said
    (tmp_path / "replies.jsonl").unlink()
    again = json.loads(harness("runs", "replay", report["run_id"], "--json").stdout)
    assert (again["same"], again["difference"]) == (True, None), again


def test_a_budget_of_a_cent_stops_the_agent_and_says_so(
    harness: Harness, tmp_path: Path, prefect_api: str
) -> None:
    repository = make_repository(tmp_path / "opening-hours")
    costly = {**reply("Look.", shell("claude-code", "ls")), "usage": {"cost_usd": 0.02}}
    (tmp_path / "replies.jsonl").write_text((json.dumps(costly) + "\n") * 9)
    args = ("run", "fix-tests", "--repo", str(repository), "--agent", "claude-code", "--json")
    done = harness(
        *(*args, "--model", "scripted/replies.jsonl", "--budget-usd", "0.01"),
        env={"PREFECT_API_URL": prefect_api},
    )
    report = json.loads(done.stdout)
    assert (done.returncode, report["status"]) == (1, "failure")
    assert "budget exceeded" in report["error"]
