"""Runs that are stopped in every way there is, and go on: real containers, a real server."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from blueprints.dsl import blueprint, deterministic
from flows.config.settings import load_settings
from flows.execution.wiring import docker_engine, sandbox_owner
from flows.orchestration import cancel
from flows.orchestration.limits import hold_slots, run_limits
from flows.orchestration.start import connected_to
from flows.runs.home import CHECKPOINT
from nodes.commands import command
from sandbox.reap import list_sandboxes, list_snapshots
from tests.support.app import Harness
from tests.support.forks import Fork, Forked
from tests.support.here import here
from tests.support.repositories import git
from tests.support.requested import requested
from tests.support.waiting import LONG_S, wait_until

pytestmark = [pytest.mark.docker, pytest.mark.prefect]

NAP = """
from pathlib import Path
from blueprints.dsl import blueprint, deterministic
from nodes.commands import shell

def nap(ctx, sandbox):
    line = "echo two >> lines.txt; echo asleep; sleep 900"
    if Path("woken").exists():
        line = "echo two >> lines.txt"
    return shell(line)(ctx, sandbox)

nap = blueprint("nap", "Sleep", [
    deterministic("one", "one", shell("echo one >> lines.txt; echo ran >> ~/one")),
    deterministic("two", "sleep", nap),
    deterministic("three", "three", shell("echo three >> lines.txt; wc -l < ~/one")),
])
"""


@pytest.fixture(autouse=True)
def api(prefect_api: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PREFECT_API_URL", prefect_api)
    monkeypatch.setattr(cancel, "PATIENCE_S", LONG_S)
    return prefect_api


@pytest.fixture
def sleeping(repository: Path, tmp_path: Path, fork: Fork) -> Iterator[Forked]:
    """A run whose second node writes a file and then sleeps; handed over once it sleeps."""
    (tmp_path / "ops.py").write_text(NAP)
    said, says = os.pipe()
    run = ("app", "run", "ops.py:nap", "--repo", "repository")
    with os.fdopen(said) as lines:
        process = fork(*run, cwd=tmp_path, env=os.environ, stdout=says, stderr=says)
        os.close(says)
        assert any("asleep" in line for line in lines)
        yield process
        process.kill()
        process.wait()


@pytest.fixture
def limits(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, int]:
    """The limit that a run of the repository comes under: one at a time."""
    monkeypatch.setenv("HARNESS_LIMITS__PER_REPOSITORY", "1")
    any_ = blueprint("any", "Any", [deterministic("any", "any", command("true"))])
    return run_limits(requested(any_, repository), load_settings().limits)


@pytest.fixture
def slot(limits: Mapping[str, int], api: str) -> Iterator[ExitStack]:
    """Holds the one slot that the repository has, until it is closed."""
    with connected_to(api), ExitStack() as stack:
        stack.enter_context(hold_slots(limits))
        yield stack


@pytest.fixture
def queued(
    slot: ExitStack, repository: Path, tmp_path: Path, fork: Fork, asked: Harness
) -> Iterator[Forked]:
    """A run that waits for this slot."""
    (tmp_path / "ops.py").write_text(NAP)
    run = ("app", "run", "ops.py:nap", "--repo", "repository")
    with TemporaryFile() as out:
        process = fork(*run, cwd=tmp_path, env=os.environ, stdout=out, stderr=out)
        wait_until(lambda: '"queued"' in asked("runs", "list", "--json").stdout)
        yield process
        process.kill()
        process.wait()


def containers() -> int:
    """How many sandboxes of this test's home there are."""
    return len(list_sandboxes(docker_engine(), sandbox_owner(load_settings())))


def images() -> int:
    """How many checkpoints of this test's home there are."""
    return len(list_snapshots(docker_engine(), sandbox_owner(load_settings())))


def state_name(api: str, run: dict[str, str]) -> str:
    """What the server says of the run's flow run."""
    return str(here().get(f"{api}/flow_runs/{run['flow_run_id']}").json()["state_name"])


def slots_taken(api: str, limits: Mapping[str, int]) -> int:
    """How many slots of these limits are taken on the server."""
    found = here().post(f"{api}/v2/concurrency_limits/filter", json={}).json()
    [taken] = [one["active_slots"] for one in found if one["name"] in limits]
    return int(taken)


def the_run(asked: Harness) -> dict[str, str]:
    [run] = json.loads(asked("runs", "list", "--json").stdout)
    found: dict[str, str] = run
    return found


def executions(run_id: str) -> list[str]:
    """How this run's executions ended, as memory has it."""
    from flows.recall.library import configured_library

    with configured_library() as opened:
        return [e.outcome for e in opened.list_executions() if e.run_id == run_id]


@pytest.mark.parametrize("way", ["Ctrl-C", "SIGTERM", "harness runs cancel", "Prefect"])
def test_a_cancelled_run_is_gone_and_keeps_its_work(
    way: str, sleeping: Forked, asked: Harness, repository: Path, api: str
) -> None:
    run = the_run(asked)
    match way:
        case "Ctrl-C":
            sleeping.send_signal(signal.SIGINT)
        case "SIGTERM":
            sleeping.send_signal(signal.SIGTERM)
        case "Prefect":
            wanted = {"state": {"type": "CANCELLING"}}
            url = f"{api}/flow_runs/{run['flow_run_id']}/set_state"
            here().post(url, json=wanted).raise_for_status()
        case _:
            told = asked("runs", "cancel", run["run_id"], "--json")
            assert json.loads(told.stdout)["state"] == "cancelled"
    wait_until(lambda: containers() == 0)
    assert sleeping.wait() == 130
    after = the_run(asked)
    assert after["state"] == "cancelled"
    assert git(repository, "show", f"{after['branch']}:lines.txt") == "one\ntwo"
    flow_run = here().get(f"{api}/flow_runs/{run['flow_run_id']}").json()
    assert flow_run["state_name"] == "Cancelled"
    assert executions(run["run_id"]) == ["neutral"]


@pytest.mark.parametrize("way", ["Ctrl-C", "harness runs cancel"])
def test_a_queued_run_that_is_cancelled_takes_no_slot(
    way: str, queued: Forked, asked: Harness, api: str, slot: ExitStack, limits: Mapping[str, int]
) -> None:
    run = the_run(asked)
    assert run["state"] == "queued"
    if way == "Ctrl-C":
        queued.send_signal(signal.SIGINT)
    else:
        told = asked("runs", "cancel", run["run_id"], "--json")
        assert json.loads(told.stdout)["state"] == "cancelled"
    assert queued.wait() == 130
    assert (the_run(asked)["state"], state_name(api, run)) == ("cancelled", "Cancelled")
    slot.close()
    assert slots_taken(api, limits) == 0


def test_a_killed_run_goes_on_and_leaves_nothing_behind(
    sleeping: Forked, harness: Harness, asked: Harness, repository: Path, tmp_path: Path
) -> None:
    sleeping.kill()
    sleeping.wait()
    wait_until(lambda: containers() == 0)
    run = the_run(asked)
    assert run["state"] == "lost"
    assert run["resumable"]
    (tmp_path / "woken").touch()
    report = json.loads(harness("runs", "resume", run["run_id"], "--json").stdout)
    assert (report["status"], report["flow_run_id"]) == ("success", run["flow_run_id"])
    assert git(repository, "show", f"{report['branch']}:lines.txt") == "one\ntwo\nthree"
    assert report["nodes"][2]["output"].strip() == "1"
    assert executions(run["run_id"]) == ["neutral"], "no agent worked"
    assert (containers(), images()) == (0, 0)


@pytest.mark.parametrize("command", ["resume", "cancel"])
def test_an_unknown_run_is_bad_input(command: str, asked: Harness) -> None:
    done = asked("runs", command, "abcd1234")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no run 'abcd1234'" in done.stderr


def test_a_running_run_is_not_resumed_and_a_finished_run_is_not_cancelled(
    sleeping: Forked, asked: Harness
) -> None:
    run = the_run(asked)["run_id"]
    done = asked("runs", "resume", run)
    assert (done.returncode, "is running" in done.stderr) == (2, True)
    asked("runs", "cancel", run)
    done = asked("runs", "cancel", run)
    assert (done.returncode, "is not running: it is cancelled" in done.stderr) == (2, True)


TALK = """
from blueprints.dsl import agentic, blueprint
talk = blueprint("talk", "Talk", [agentic("talk", "talk", prompt=lambda _: "go on")])
"""


def says(*lines: str) -> str:
    """A script of replies that run these lines, one each, and then says so."""
    calls = ({"function": {"name": "bash", "arguments": {"command": line}}} for line in lines)
    replies = [{"content": "", "tool_calls": [call]} for call in calls]
    return "".join(f"{json.dumps(reply)}\n" for reply in (*replies, {"content": "Done."}))


def test_an_agent_that_was_killed_in_the_middle_goes_on_there(
    fork: Fork, started: Harness, asked: Harness, repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "ops.py").write_text(TALK)
    script = tmp_path / "replies.jsonl"
    script.write_text(says("echo one | tee -a lines.txt ~/out", "echo 2 >> lines.txt; sleep 900"))
    talk = ("run", "ops.py:talk", "--repo", "repository", "--model", f"scripted/{script}")
    with (
        Path(os.devnull).open("w") as nowhere,
        fork("app", *talk, cwd=tmp_path, env=os.environ, stdout=nowhere, stderr=nowhere) as process,
    ):
        wait_until(lambda: talks() and lines_inside() == "one\n2\n")
        process.kill()
    wait_until(lambda: containers() == 0)
    assert images() == 1
    script.write_text(says("never asked for again", "echo two >> lines.txt; wc -l < ~/out"))
    run = the_run(asked)
    report = json.loads(started("runs", "resume", run["run_id"], "--json").stdout)
    assert git(repository, "show", f"{report['branch']}:lines.txt") == "one\ntwo"
    [node] = report["nodes"]
    assert (report["status"], node["turns"], node["tool_calls"]) == ("success", 3, {"bash": 2})
    assert (containers(), images()) == (0, 0)


def lines_inside() -> str:
    """What the one sandbox has in the file that the agent writes."""
    [there] = list_sandboxes(docker_engine(), sandbox_owner(load_settings()))
    look = ("docker", "exec", there.id, "cat", "/workspace/lines.txt")
    return subprocess.run(look, capture_output=True, text=True, check=False).stdout


def talks() -> object:
    """The conversations that the one run has kept."""
    found = list(load_settings().runs.glob(f"*/{CHECKPOINT}"))
    return found and json.loads(found[0].read_text())["talks"]
