"""Groups of playbooks: what is followed, what is given up, and after how many runs."""

from statistics import mean

import pytest

from benchmarks.learning.following import (
    BAD_RATES,
    FALSE_SUCCESSES,
    GOOD_RATES,
    SEEDS,
    failures_until_failing,
    followed,
    group_of,
    still_followed,
    tried_again,
)
from memory.types import GroupThresholds


@pytest.mark.parametrize(
    ("successes", "failures", "expected"),
    [
        (0, 0, "untested"),
        (0, 2, "untested"),
        (3, 0, "promising"),
        (4, 0, "proven"),
        (6, 1, "proven"),
        (2, 1, "promising"),
        (1, 1, "promising"),
        (0, 3, "failing"),
        (2, 3, "failing"),
        (90, 3, "proven"),
        (90, 4, "failing"),
    ],
)
def test_three_recent_failures_that_outweigh_make_a_playbook_failing(
    successes: int, failures: int, expected: str
) -> None:
    thresholds = GroupThresholds(proven_min=0.48)  # 6 of 7 have 0.487
    assert group_of([True] * successes + [False] * failures, thresholds) == expected


def test_old_failures_do_not_make_a_repaired_playbook_failing() -> None:
    assert group_of([False] * 20 + [True] * 5) == "promising"


def test_thresholds_of_zero_are_zero() -> None:
    assert group_of([], GroupThresholds(proven_min=0.0)) == "proven"
    assert group_of([False] * 9, GroupThresholds(failed_max=0.0)) == "failing"
    assert group_of([True] + [False] * 9, GroupThresholds(failed_max=0.0)) == "promising"


@pytest.mark.parametrize("rate", GOOD_RATES)
def test_a_good_playbook_is_still_followed_after_40_runs(rate: float) -> None:
    assert still_followed(rate) >= GOOD_RATES[rate]


@pytest.mark.parametrize("rate", BAD_RATES)
def test_a_bad_playbook_is_no_longer_followed_after_40_runs(rate: float) -> None:
    assert still_followed(rate) <= BAD_RATES[rate]


@pytest.mark.parametrize("successes", FALSE_SUCCESSES)
def test_a_playbook_that_is_wrong_is_failing_after_few_failures(successes: int) -> None:
    assert failures_until_failing(successes) <= FALSE_SUCCESSES[successes]


def test_a_wrong_playbook_is_tried_again_in_few_runs() -> None:
    assert 0 < tried_again() < 0.1


def test_a_playbook_that_failed_by_bad_luck_comes_back() -> None:
    unlucky = [True] * 20 + [False] * 4
    back = [followed(seed, unlucky, lambda: True)[-1] for seed in range(SEEDS)]
    assert mean(back) > 0.9


def test_a_resumed_run_sees_the_same_group() -> None:
    unlucky = [True, False, False, False]
    groups = [[group_of(unlucky, seed=f"run-{n}") for n in range(50)] for _ in range(2)]
    assert groups[0] == groups[1]
    assert set(groups[0]) == {"failing", "promising"}
