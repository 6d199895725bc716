"""The shipped `claude` and `pi` do a whole run, in the hardened container, by the command line."""

import json
import shlex
from pathlib import Path

import pytest

from app.demo.request import make_repository
from contracts.agents import AGENTS, CLI_AGENTS
from tests.support.agent_calls import OWN_AGENT, call, own_agent_settings, reply, shell
from tests.support.app import Harness
from tests.support.repositories import git

pytestmark = [pytest.mark.docker, pytest.mark.prefect]

FIX_TESTS = ("run", "fix-tests", "--set", "install=true", "--model", "scripted/replies.jsonl")
"""A run of a project that needs no install: seconds of pip, which other tests have."""


@pytest.mark.parametrize("agent", [*sorted(CLI_AGENTS), OWN_AGENT])
def test_a_real_agent_fixes_the_test_and_its_work_is_on_the_branch(
    harness: Harness, own_home: Path, tmp_path: Path, prefect_api: str, agent: str
) -> None:
    if agent == OWN_AGENT:
        own_home.mkdir(exist_ok=True)
        (own_home / "harness.toml").write_text(own_agent_settings())
    repository = make_repository(tmp_path / "opening-hours")
    # Not by sed: qwen-code takes that for an edit of a file that it has not read.
    path = "__import__('pathlib').Path('opening_hours.py')"
    mend = f'{path}.write_text({path}.read_text().replace("<= span.end", "< span.end"))'
    replies = [
        reply("It includes the end.", shell(agent, f"python3 -c {shlex.quote(mend)}")),
        reply("A shop is closed now."),
    ]
    (tmp_path / "replies.jsonl").write_text("".join(json.dumps(r) + "\n" for r in replies))
    args = (*FIX_TESTS, "--repo", str(repository), "--agent", agent, "--json")
    done = harness(*args, env={"PREFECT_API_URL": prefect_api})
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
    args = (*FIX_TESTS, "--repo", str(repository), "--agent", "claude-code", "--json")
    done = harness(*args, "--budget-usd", "0.01", env={"PREFECT_API_URL": prefect_api})
    report = json.loads(done.stdout)
    assert (done.returncode, report["status"]) == (1, "failure")
    assert "budget exceeded" in report["error"]


def test_every_tool_is_told_live_on_the_terminal(
    harness: Harness, tmp_path: Path, prefect_api: str
) -> None:
    repository = make_repository(tmp_path / "opening-hours")
    path = "/workspace/opening_hours.py"
    change = {"old_string": "hour <= span.end", "new_string": "hour < span.end"}
    replies = [
        reply("", call("Read", {"file_path": path})),
        reply("", call("Edit", {"file_path": path, **change})),
        reply("", shell("claude-code", "python3 -m pytest -q")),
        reply("A shop is closed now."),
    ]
    (tmp_path / "replies.jsonl").write_text("".join(json.dumps(r) + "\n" for r in replies))
    args = (*FIX_TESTS, "--repo", str(repository), "--agent", "claude-code")
    done = harness(*args, env={"PREFECT_API_URL": prefect_api})
    assert done.returncode == 0, done.stderr
    told = [line.strip().rpartition(" · ")[0] for line in done.stderr.splitlines()]
    live = [line for line in told if line.startswith(("Read ", "Edit ", "Bash "))]
    assert live == [f"Read {path} · ok", f"Edit {path} · ok", "Bash python3 -m pytest -q · ok"]


@pytest.mark.parametrize("agent", ["claude-code", "pi"])
def test_a_model_that_goes_away_is_an_outage_for_the_whole_run(
    harness: Harness, tmp_path: Path, prefect_api: str, agent: str
) -> None:
    repository = make_repository(tmp_path / "opening-hours")
    first = reply("Let me look.", shell(agent, "ls"))
    (tmp_path / "replies.jsonl").write_text(json.dumps(first) + "\n")
    args = (*FIX_TESTS, "--repo", str(repository), "--agent", agent, "--json")
    done = harness(*args, env={"PREFECT_API_URL": prefect_api})
    assert done.returncode == 3, done.stderr
    report = json.loads(done.stdout)
    assert "no reply left: 1 replies, call 2" in report["error"]
    assert (report["token_usage"]["output"], report["cost_usd"]) == (20, 0.001)
    assert "harness runs resume" in str(report["notices"])


def test_the_pinned_version_of_each_agent_is_listed(harness: Harness) -> None:
    found = json.loads(harness("agents", "versions", "--json").stdout)
    assert [one["agent"] for one in found] == [*AGENTS]
    packages = {one["agent"]: one["packages"] for one in found}
    assert packages["opencode"] == ["npm:opencode-ai@1.18.33"]
    assert (packages["native"], found[0]["built"]) == ([], True)
