"""What `make bench` measures when it is asked for all, or for parts."""

from functools import partial

import pytest

from benchmarks import run


def test_without_a_word_every_part_is_measured() -> None:
    assert run.wanted([]) == list(run.PARTS.values())


def test_a_part_takes_the_number_after_it_as_its_size() -> None:
    events, chaos = run.wanted(["events", "chaos", "24"])
    assert events is run.PARTS["events"]
    assert isinstance(chaos, partial)
    assert (chaos.func, chaos.args) == (run.SIZED["chaos"], (24,))


def test_an_unknown_part_is_named_with_those_there_are() -> None:
    with pytest.raises(SystemExit, match=r"no part 'speed'; there are runs, .*chaos"):
        run.wanted(["speed"])
