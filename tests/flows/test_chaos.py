"""Parts of a household killed once in the middle of a run, as the benchmark does it with all."""

import pytest

from benchmarks.chaos.kills import KILLS
from benchmarks.chaos.rows import disturbed

pytestmark = [pytest.mark.prefect, pytest.mark.docker, pytest.mark.timeout(1800)]


OF_OTHER_TESTS = ("flow", "worker", "engine")
"""Killed elsewhere too, in less time: an engine of its own alone takes half a minute."""


def test_whatever_is_killed_a_run_ends_as_undisturbed() -> None:
    kinds = [kind for kind in KILLS if kind not in OF_OTHER_TESTS]
    assert [after for after in disturbed(kinds) if not after.right] == []
