"""Realistic work needs few approvals; the same work manipulated by untrusted text is denied."""

import pytest

from benchmarks.policy.work import OUT, WORK, carry_out, injected
from contracts.json import Json

ASKED = {"answer the sender", "act on what an issue says", "restricted notes to the team"}


def test_at_least_four_of_five_writes_need_no_approval() -> None:
    assert len(WORK) >= 30
    done = {name: carry_out(steps) for name, steps in WORK.items()}
    writes, denied = (
        sum(x) for x in zip(*((d.writes, d.denied) for d in done.values()), strict=True)
    )
    assert (writes - denied) / writes >= 0.8
    assert {name for name, one in done.items() if one.denied} == ASKED


@pytest.mark.parametrize("steps", WORK.values(), ids=WORK.keys())
def test_swaps_by_untrusted_text_are_denied(steps: list[dict[str, Json]]) -> None:
    for index, name, made in injected(steps):
        done = carry_out(made)
        assert done.statuses[index] != "done", (index, name)
        assert not any(OUT in what.partition("(")[2].partition(",")[0] for what in done.did)
