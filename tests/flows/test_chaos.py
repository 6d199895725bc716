"""A daemon is killed in the middle of a run, as the benchmark does with all of them."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from benchmarks.chaos.kills import KILLS
from benchmarks.chaos.rows import disturbed
from benchmarks.chaos.stage import Process, stage
from tests.support.forks import Fork

pytestmark = [pytest.mark.prefect, pytest.mark.docker]


OF_OTHER_TESTS = ("flow", "worker", "engine")
"""Killed elsewhere too, in less time: an engine of its own alone takes half a minute."""


def test_a_run_ends_normally_whatever_process_is_killed(fork: Fork) -> None:
    def begin(
        args: tuple[str, ...], env: Mapping[str, str], place: Path, said: IO[bytes]
    ) -> Process:
        return fork("app", *args, cwd=place, env=env, stdout=said, stderr=said)

    kinds = [kind for kind in KILLS if kind not in OF_OTHER_TESTS]
    seen = disturbed(kinds, on=partial(stage, begin=begin))
    assert [after for after in seen if not after.right] == []
