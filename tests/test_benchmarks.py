"""What `make bench` measures when it is asked for all, or for parts."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from benchmarks import run
from benchmarks.field.fetch import field_projects
from benchmarks.field.measure import outcome_of
from benchmarks.row import Row


def test_without_a_word_every_part_is_measured() -> None:
    assert [part.rows for part in run.wanted([])] == list(run.PARTS.values())


def test_a_part_takes_the_number_after_it_as_its_size() -> None:
    events, chaos = (part.rows for part in run.wanted(["events", "chaos", "24"]))
    assert events is run.PARTS["events"]
    assert isinstance(chaos, partial)
    assert (chaos.func, chaos.args) == (run.SIZED["chaos"], (24,))


def test_a_part_that_fails_is_a_row_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Iterator[Row]:
        yield Row(name="first", ours=1, baseline=4, ratio=0.25, target="at most 1")
        raise ValueError("no browser")

    def whole() -> Iterator[Row]:
        yield Row(name="second", ours=3, baseline=2, ratio=1.5, target="at most 2", unit="ms")

    monkeypatch.setattr(run, "PARTS", {"broken": broken, "whole": whole})
    monkeypatch.setattr(run, "LOADED", {"whole": whole})
    page = tmp_path / "figures.md"

    assert run.main(["--loaded", "--write", str(page)]) == 1
    assert "second, loaded" in capsys.readouterr().out
    rows = page.read_text().splitlines()[-3:]
    assert rows == [
        "| first | 1 s | 4 s | 0.25 |  | at most 1 |",
        "| the rest of broken | - | - | - |  | - (failed: ValueError: no browser) |",
        "| second | 3 ms | 2 ms | 1.5 | 1.5 | at most 2 |",
    ]
    assert run.main(["whole"]) == 0


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
