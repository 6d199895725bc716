"""What `make bench` measures when it is asked for all, or for parts."""

from collections import Counter
from functools import partial

import pytest

from benchmarks import run
from benchmarks.field.fetch import field_projects
from benchmarks.field.measure import outcome_of


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


def test_the_field_has_three_projects_of_each_of_six_languages_and_two_of_two_more() -> None:
    counts = Counter(project.language for project in field_projects())
    assert all(counts[name] >= 3 for name in ("Python", "Node", "Go", "Rust", "Java", "C"))
    assert all(counts[name] >= 2 for name in ("Ruby", "PHP"))
    assert counts.total() >= 30


@pytest.mark.parametrize(
    ("exit_code", "agent_worked", "outcome"),
    [(0, True, "green"), (0, False, "failed"), (3, False, "told"), (3, True, "failed")],
)
def test_a_run_of_the_field_is_green_only_after_an_agent_worked_and_told_only_before(
    exit_code: int, agent_worked: bool, outcome: str
) -> None:
    assert outcome_of(exit_code, agent_worked=agent_worked) == outcome
