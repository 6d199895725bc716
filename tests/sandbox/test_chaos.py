"""A harness that is killed at any moment leaves nothing that one reap does not find."""

from uuid import uuid4

import pytest

from benchmarks.sandbox.kills import left_after

pytestmark = pytest.mark.docker


def test_killed_at_random_moments_nothing_is_left_after_one_reap() -> None:
    assert left_after(6, f"harness-tests-{uuid4().hex[:8]}") == (0, 0)
