"""Each part of a household killed once in the middle of a run, as the benchmark does it."""

import os

import pytest

from benchmarks.chaos.kills import KILLS
from benchmarks.chaos.rows import disturbed

pytestmark = [pytest.mark.prefect, pytest.mark.docker, pytest.mark.timeout(1800)]


def test_whatever_is_killed_a_run_ends_as_undisturbed() -> None:
    kinds = [kind for kind in KILLS if kind != "engine" or os.geteuid() == 0]
    assert [after for after in disturbed(kinds) if not after.right] == []
