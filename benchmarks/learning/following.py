"""Simulated agents that follow a playbook unless it is failing, with the product's own groups."""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from statistics import mean

from benchmarks.row import Row
from memory.playbooks.usefulness import result_group, weigh_outcomes
from memory.types import GroupThresholds, OutcomeCounts

SEEDS = 200
RUNS = 40
GOOD_RATES = {0.95: 0.98, 0.9: 0.95, 0.8: 0.9}
"""True success rate, and the least share of such playbooks that must still be followed."""

BAD_RATES = {0.2: 0.15}
"""True success rate, and the largest share."""

FALSE_SUCCESSES = {0: 3, 10: 4, 20: 4, 50: 5, 100: 6}
"""Successes of a playbook that fails from now on, and the most failures until it is failing."""

DEFAULT = GroupThresholds()


def rows() -> Iterator[Row]:
    """The share still followed after 40 runs, and failures until a wrong playbook is given up."""
    for rate, bound in (GOOD_RATES | BAD_RATES).items():
        share = still_followed(rate)
        yield Row(
            name=f"followed after {RUNS} runs, true success {rate:.0%}",
            ours=share,
            baseline=bound,
            ratio=share / bound,
            target="at most 1" if rate in BAD_RATES else "at least 1",
            unit="",
        )
    for successes, most in FALSE_SUCCESSES.items():
        failures = failures_until_failing(successes)
        yield Row(
            name=f"failures until failing, after {successes} successes",
            ours=failures,
            baseline=most,
            ratio=failures / most,
            target="at most 1",
            unit="runs",
        )
    again = tried_again()
    name, note = "a wrong playbook is tried again", "share of runs after it is failing"
    ratio = again / 0.1
    yield Row(
        name=name, ours=again, baseline=0.1, ratio=ratio, target="at most 1", unit="", note=note
    )


def group_of(
    outcomes: Sequence[bool], thresholds: GroupThresholds = DEFAULT, seed: str = ""
) -> str:
    """Return the group of a playbook with these outcomes, the latest last."""
    counts = OutcomeCounts(successes=sum(outcomes), failures=len(outcomes) - sum(outcomes))
    return result_group(counts, weigh_outcomes(outcomes[::-1]), thresholds, seed=seed)


def followed(seed: int, history: Sequence[bool], succeeds: Callable[[], bool]) -> list[bool]:
    """Return for each run whether its agent follows the playbook."""
    outcomes, runs = list(history), list[bool]()
    for run in range(RUNS + 1):
        runs.append(group_of(outcomes, seed=f"{seed}-{run}") != "failing")
        if runs[-1]:
            outcomes.append(succeeds())
    return runs


def still_followed(rate: float) -> float:
    """Return the share of playbooks with this true success rate that are followed in the end."""
    lot = random.Random(25)  # noqa: S311 - the same lots each time, no secret
    return mean(followed(seed, [], lambda: lot.random() < rate)[-1] for seed in range(SEEDS))


def failures_until_failing(successes: int) -> int:
    """Return how many failures in a row make a playbook with these successes failing."""
    history = [True] * successes
    return next(n for n in count() if group_of(history + [False] * n) == "failing")


def tried_again() -> float:
    """Return the share of runs that try a wrong playbook, after it was called failing."""
    wrong = [True] * 20
    return mean(
        mean(followed(seed, wrong, lambda: False)[failures_until_failing(20) :])
        for seed in range(SEEDS)
    )
