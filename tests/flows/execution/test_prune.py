"""What did not win is kept until it is pruned."""

import json
import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep

import pytest

from blueprints.dsl import blueprint, compete, deterministic, step
from contracts.run import NodeResult, RunContext
from contracts.sandbox import Sandbox
from flows.config.settings import load_settings
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.execution.prune import prune
from nodes.commands import command
from sandbox.repos import unused_bases
from tests.support.app import harness_argv
from tests.support.flow_runs import WRITE_42
from tests.support.flows import DONE, Ask, scripted_shop
from tests.support.repositories import commit, git


@pytest.fixture
def bare(shop: RunDependencies, ask: Ask, model: Callable[..., str]) -> Path:
    """The bare repository of a run in which one of two agents won."""
    steps = [step("answer", command("true"))]
    tried = compete("try", "Try", 2, prompt=lambda _: "go", steps=steps)
    script = model(WRITE_42, WRITE_42, DONE, DONE)
    run_blueprint(ask(blueprint("race", "Race", [tried]), model=script), shop, run_id="abcd1234")
    [found] = shop.repos.glob("*.git")
    # As the work of a repository that is named by its URL, which stays there.
    git(found, "branch", "--force", "harness/abcd1234/race", lost(found)[0])
    return found


def lost(bare: Path) -> list[str]:
    return git(bare, "branch", "--list", "harness/*/race.*", "--format", "%(refname:short)").split()


def test_what_lost_is_pruned_by_its_age_and_the_work_is_not(bare: Path) -> None:
    there, now = lost(bare), datetime.now(UTC)
    assert len(there) == 1
    assert prune(load_settings(), now - timedelta(days=1)) == ()
    told = prune(load_settings(), now + timedelta(minutes=1), dry_run=True)
    assert ([one.branch for one in told if one.run_id], lost(bare)) == (there, there)
    work, long_ago = git(bare, "rev-parse", there[0]), (now - timedelta(days=30)).timestamp()
    git(bare, "branch", "--force", "harness/abcd1234/race", f"{there[0]}~")
    for kept in bare.glob("objects/*/*"):
        os.utime(kept, (long_ago, long_ago))
    assert prune(load_settings(), now + timedelta(minutes=1)) == told
    assert lost(bare) == []
    with pytest.raises(subprocess.CalledProcessError):
        git(bare, "cat-file", "-e", work)
    assert git(bare, "branch", "--list", "harness/abcd1234/race")


def test_what_a_damaged_run_left_stays_and_ends_nothing(bare: Path, shop: RunDependencies) -> None:
    (shop.runs / "abcd1234" / "run.json").write_text("{")
    there = lost(bare)
    told = prune(load_settings(), datetime.now(UTC) + timedelta(minutes=1))
    assert ([one for one in told if one.run_id], lost(bare)) == ([], there)


def test_a_commit_is_held_as_long_as_a_run_may_go_on_from_there(
    ask: Ask, bare: Path, repository: Path
) -> None:
    """One run, begun at an older commit, is over; another was interrupted."""
    before = git(bare, "for-each-ref", "--format=%(objectname)", "refs/harness/base")

    def interrupted(_: RunContext, __: Sandbox) -> NodeResult:
        raise KeyboardInterrupt

    stops = blueprint("stops", "Stops", [deterministic("stop", "stops", interrupted)])
    (repository / "answer.txt").write_text("42\n")
    git(repository, "add", "--all")
    commit(repository, "later")
    with pytest.raises(KeyboardInterrupt):
        run_blueprint(ask(stops), scripted_shop(), run_id="b2")
    long_ago, now = datetime.now(UTC) - timedelta(days=1), datetime.now(UTC) + timedelta(minutes=1)
    prune(load_settings(), long_ago)  # its garbage is collected, and refs tell their age still
    assert unused_bases(bare, long_ago) == []
    assert before in unused_bases(bare, now)
    gone = [pruned.branch for pruned in prune(load_settings(), now) if pruned.run_id is None]
    assert gone == [f"refs/harness/base/{before}"]
    assert unused_bases(bare, now) == [git(repository, "rev-parse", "HEAD")]


def test_the_command_line_tells_what_it_would_prune(bare: Path) -> None:
    sleep(1.1)  # git knows whole seconds
    argv = harness_argv("runs", "prune", "--older-than", "0m", "--dry-run", "--json")
    told = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    [branch] = lost(bare)
    base = git(bare, "for-each-ref", "--format=%(refname)", "refs/harness/base")
    assert told == [
        {"run_id": "abcd1234", "branch": branch, "repository": str(bare)},
        {"run_id": None, "branch": base, "repository": str(bare)},
    ]
