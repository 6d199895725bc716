"""Runs once more from their trajectory, on a real repository, without a model."""

from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.errors import ModelUnavailable
from flows.execution.dependencies import RunDependencies
from flows.execution.engine import run_blueprint
from flows.execution.replay import ReplayOutcome, replay
from tests.support.flow_runs import WRITE_42, checked
from tests.support.flows import DONE, Ask, scripted_shop
from tests.support.repositories import fingerprint, git

RUN = "abcd1234"


@pytest.fixture
def again(shop: RunDependencies, monkeypatch: pytest.MonkeyPatch) -> Callable[[], ReplayOutcome]:
    """Replays the run; its blueprint is one of this test, which no name finds."""
    monkeypatch.setattr("flows.execution.replay.find_blueprint", lambda *_, **__: checked())
    return lambda: replay(shop.runs, RUN, lambda path: scripted_shop(replay=path))


def test_a_replay_ends_in_the_same_tree_and_leaves_nothing(
    shop: RunDependencies, ask: Ask, repository: Path, model: Callable[..., str],
    again: Callable[[], ReplayOutcome],
) -> None:  # fmt: skip
    run_blueprint(ask(checked(), model=model(WRITE_42, DONE)), shop, run_id=RUN)
    model({"content": "Another model."})
    before, refs = fingerprint(repository), git(repository, "for-each-ref")
    done = again()
    assert (done.same, done.difference, done.files) == (True, None, ())
    assert (
        done.tree
        == done.was_tree
        == git(repository, "rev-parse", f"harness/{RUN}/checked^{{tree}}")
    )
    assert (fingerprint(repository), git(repository, "for-each-ref")) == (before, refs)
    assert [path.name for path in shop.runs.iterdir()] == [RUN]


def test_a_replay_says_at_which_step_and_in_which_file_it_differs(
    shop: RunDependencies, ask: Ask, model: Callable[..., str], again: Callable[[], ReplayOutcome]
) -> None:
    run_blueprint(ask(checked(), model=model(WRITE_42, DONE)), shop, run_id=RUN)
    path = shop.runs / RUN / "trajectory.jsonl"
    path.write_text(path.read_text().replace("answer.txt", "other.txt"))
    done = again()
    assert not done.same
    assert done.files == ("answer.txt", "other.txt")
    assert str(done.difference).startswith("step 3 differs: was 'mend (attempt 1) · result · ")


def test_a_run_that_an_outage_ended_is_replayed_to_that_point(
    shop: RunDependencies, ask: Ask, model: Callable[..., str], again: Callable[[], ReplayOutcome]
) -> None:
    with pytest.raises(ModelUnavailable):
        run_blueprint(ask(checked(), model=model(WRITE_42)), shop, run_id=RUN)
    assert again().same
