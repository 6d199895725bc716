"""Which group a playbook is shown in: an estimate that doubts and forgets. Pure functions.

Confidence (Wilson's lower bound) counts every execution for ever, so a playbook that stopped
working would stay proven for dozens of runs. The formula's source and its simulation are in
`docs/why/memory.md`.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from memory.types import GroupThresholds, OutcomeCounts, ResultGroup, wilson_lower_bound

FORGETTING = 0.79
"""Weight of an execution, as a power of the number of later ones."""

WINDOW = 20
"""Latest executions that are weighed; the weights of older ones add up to less than 0.05."""

PRIOR = (2.0, 1.0)
"""Successes and failures that a playbook without any execution is taken to have."""

RETRY_ABOVE = 0.7
"""Success rate that must be drawn for a failing playbook to be offered once more."""


class RecentOutcomes(NamedTuple):
    """Weights of the latest successes and failures."""

    succeeded: float = 0.0
    failed: float = 0.0

    @property
    def is_failing(self) -> bool:
        """At least three recent failures, which outweigh the successes and the prior."""
        good, bad = PRIOR
        # Two failures weigh at most 1 + FORGETTING.
        return (
            self.failed > 1 + FORGETTING + 1e-9 and bad + self.failed > good + self.succeeded + 1e-9
        )


def weigh_outcomes(succeeded: Sequence[bool]) -> RecentOutcomes:
    """Return the weights of these outcomes, the latest first."""
    weights = [FORGETTING**age for age in range(min(len(succeeded), WINDOW))]
    good = sum(weight for weight, success in zip(weights, succeeded, strict=False) if success)
    return RecentOutcomes(good, sum(weights) - good)


def result_group(
    counts: OutcomeCounts, recent: RecentOutcomes, thresholds: GroupThresholds, *, seed: str = ""
) -> ResultGroup:
    """Return the group that a playbook is shown in.

    `counts` are of all executions. With a seed, such as the ids of run and playbook, a failing
    playbook is sometimes offered again: the more often, the less is known against it.
    """
    weak = wilson_lower_bound(*recent) <= thresholds.failed_max
    if recent.is_failing and weak and not (seed and _is_tried_again(recent, seed)):
        return "failing"
    if counts.confidence >= thresholds.proven_min and not recent.is_failing:
        return "proven"
    return "promising" if counts.succeeded else "untested"


def _is_tried_again(recent: RecentOutcomes, seed: str) -> bool:
    """Thompson sampling: draw a success rate from the Beta distribution of what is known."""
    good, bad = PRIOR
    lot = Random(seed)  # noqa: S311 - repeatable on purpose: a resumed run sees the same prompt
    return lot.betavariate(good + recent.succeeded, bad + recent.failed) > RETRY_ABOVE
