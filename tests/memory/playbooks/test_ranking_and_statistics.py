"""The pure parts: confidence, fusion, contrast, staleness, lift, words."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from memory.errors import EntryInvalid
from memory.indexing import word_impacts
from memory.playbooks.lift import MIN_RUNS_PER_SIDE, Trial, is_held_out, lift
from memory.playbooks.search import blend_confidence, ranked_keys
from memory.playbooks.upkeep import stale_reason
from memory.relevance import fuse_scores, query_words, tokenize
from memory.types import (
    GroupThresholds,
    OutcomeCounts,
    Playbook,
    PlaybookContent,
    PlaybookQuery,
    RecallOptions,
    Retention,
    wilson_lower_bound,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("successes", "failures", "expected"),
    [
        (0, 0, 0.0),
        (1, 0, 0.2065),
        (2, 0, 0.3424),
        (3, 0, 0.4385),
        (4, 0, 0.5101),
        (5, 0, 0.5655),
        (1, 1, 0.0945),
        (9, 1, 0.5958),
        (1, 9, 0.0179),
        (95, 5, 0.8882),
    ],
)
def test_confidence_prefers_evidence(successes: int, failures: int, expected: float) -> None:
    assert wilson_lower_bound(successes, failures) == pytest.approx(expected, abs=1e-4)


def test_both_arms_together_outrank_one() -> None:
    scores = fuse_scores(
        [(1, 3.0), (2, 3.0)], [(2, 0.3), (3, 0.3)], max_word_score=10.0, max_distance=0.7
    )
    assert ranked_keys(scores, min_score=0, limit=3) == [2, 3, 1]
    assert fuse_scores([(7, 10.0)], [(7, 0.0)], max_word_score=10.0, max_distance=0.7) == {
        7: pytest.approx(1.0)
    }


def test_one_word_shared_by_chance_does_not_outrank_the_meaning() -> None:
    scores = fuse_scores([(1, 1.0)], [(2, 0.3), (1, 0.6)], max_word_score=10.0, max_distance=0.7)
    assert ranked_keys(scores, min_score=0, limit=1) == [2]


def test_words_decide_between_equally_near_playbooks() -> None:
    scores = fuse_scores([(2, 1.0)], [(1, 0.0), (2, 0.0)], max_word_score=10.0, max_distance=0.7)
    assert ranked_keys(scores, min_score=0, limit=1) == [2]


def test_words_alone_rank_by_their_share_of_the_query() -> None:
    assert fuse_scores([(1, 4.0), (2, 1.0)], None, max_word_score=8.0, max_distance=0.7) == {
        1: 0.5,
        2: 0.03125,
    }
    assert fuse_scores([], [], max_word_score=0.0, max_distance=0.7) == {}


def test_confidence_can_pull_a_playbook_in_before_the_cut() -> None:
    relevance = {1: 0.9, 2: 0.8, 3: 0.1}
    mixed = blend_confidence(relevance, {1: 0.0, 2: 0.9, 3: 0.0}, 0.5)
    assert ranked_keys(mixed, min_score=0, limit=1) == [2]


def test_a_weight_of_zero_keeps_the_order_by_text() -> None:
    relevance = {1: 0.9, 2: 0.8}
    assert blend_confidence(relevance, {1: 0.0, 2: 1.0}, 0) == relevance


def playbook(
    days_old: float, counts: OutcomeCounts, used_days_ago: float | None = None
) -> Playbook:
    made = NOW - timedelta(days=days_old)
    used = None if used_days_ago is None else NOW - timedelta(days=used_days_ago)
    about = {"id": "x", "key": 1, "slug": "x", "version": 1, "title": "x"}
    return Playbook(**about, counts=counts, created_at=made, updated_at=made, last_used_at=used)  # type: ignore[arg-type]  # a test's shortcut


@pytest.mark.parametrize(
    ("one", "stale"),
    [
        (playbook(1, OutcomeCounts()), False),
        (playbook(91, OutcomeCounts()), True),
        (playbook(400, OutcomeCounts(successes=9), used_days_ago=91), True),
        (playbook(400, OutcomeCounts(successes=9), used_days_ago=1), False),
        (playbook(400, OutcomeCounts(failures=3), used_days_ago=1), False),
        (playbook(95, OutcomeCounts(successes=1), used_days_ago=1), False),
        (
            replace(playbook(400, OutcomeCounts(successes=9), used_days_ago=100), updated_at=NOW),
            False,
        ),
        (replace(playbook(400, OutcomeCounts()), updated_at=NOW), False),
        (replace(playbook(400, OutcomeCounts()), status="archived"), False),
    ],
)
def test_weak_old_and_long_unused_playbooks_are_stale(one: Playbook, stale: bool) -> None:
    assert (stale_reason(one, Retention(), NOW) is not None) is stale


def test_retention_limits_of_zero_are_respected() -> None:
    assert stale_reason(playbook(400, OutcomeCounts()), Retention(min_confidence=0), NOW) is None
    assert stale_reason(playbook(0.1, OutcomeCounts()), Retention(max_age_days=0), NOW) is not None


def test_a_lift_says_when_the_data_is_too_thin() -> None:
    thin = lift([Trial(True, True)] * 500 + [Trial(False, False)] * (MIN_RUNS_PER_SIDE - 1))
    assert thin.verdict.startswith("too few runs")
    assert lift([]).verdict.startswith("too few runs")


@pytest.mark.parametrize(
    ("shown", "held_out", "verdict"),
    [(90, 50, "helps"), (50, 90, "harms"), (55, 50, "no difference seen")],
)
def test_a_lift_is_judged_by_its_interval(shown: int, held_out: int, verdict: str) -> None:
    trials = [Trial(True, n < shown) for n in range(100)]
    found = lift(trials + [Trial(False, n < held_out) for n in range(100)])
    assert found.verdict == verdict
    assert found.interval.low < found.difference < found.interval.high


def test_newcombes_interval_is_that_of_the_textbook() -> None:
    """Newcombe 1998, method 10: 56/70 against 48/80 gives 0.0524 to 0.3339."""
    trials = [Trial(True, n < 56) for n in range(70)] + [Trial(False, n < 48) for n in range(80)]
    assert lift(trials).interval == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_runs_are_held_out_by_id_in_the_configured_share() -> None:
    drawn = [is_held_out(f"run-{n}", 0.2) for n in range(5_000)]
    assert 0.17 < sum(drawn) / 5_000 < 0.23
    assert is_held_out("run-1", 0.2) == is_held_out("run-1", 0.2)
    assert not any(is_held_out(f"run-{n}", 0.0) for n in range(100))
    assert all(is_held_out(f"run-{n}", 1.0) for n in range(100))


def test_words_are_cut_to_one_stem() -> None:
    assert len({*tokenize("deploy deploys deployed deploying")}) == 1
    assert tokenize("the tests are flaky") == ["test", "flaky"]
    assert tokenize("数据库") == ["数", "据", "库"]
    assert query_words("test test tests") == ["test"]


def test_a_title_weighs_more_than_a_process() -> None:
    found = word_impacts(PlaybookContent(title="alpha", process="beta"))
    assert found["alpha"] > found["beta"]


def test_ten_occurrences_of_a_word_weigh_more_than_one_and_far_less_than_ten() -> None:
    once, often = (
        word_impacts(PlaybookContent(title="x", process="key " * n))["key"] for n in (1, 10)
    )
    assert once < often < 3 * once


@pytest.mark.parametrize(
    "make",
    [
        lambda: PlaybookQuery(text="x", limit=-1),
        lambda: PlaybookQuery(text="x", min_score=1.1),
        lambda: PlaybookQuery(text="x", max_distance=-0.1),
        lambda: PlaybookQuery(text="x", confidence_weight=float("nan")),
        lambda: GroupThresholds(proven_min=2),
        lambda: Retention(max_age_days=-1),
        lambda: RecallOptions(holdout_share=7),
    ],
)
def test_the_library_refuses_numbers_that_the_command_line_refuses(
    make: Callable[[], object],
) -> None:
    with pytest.raises(EntryInvalid, match="it must be"):
        make()
