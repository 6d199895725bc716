"""Runs that are shown no playbook, and what comparing others with them says; on both databases."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice

from memory.playbooks.learn import record_run
from memory.playbooks.library import Library
from memory.playbooks.lift import MIN_RUNS_PER_SIDE, Lift, TrialGroup, is_held_out
from memory.playbooks.recall import RUNS_BEFORE_HOLDOUT, recall_playbooks
from memory.playbooks.render import estimate_tokens
from memory.types import PlaybookContent, RecallOptions
from tests.support.memory_runs import HOLD_OUT, SHOW_ALL, ended, say

SHOW_ONE = RecallOptions(holdout_share=0.0, max_distance=2.0, limit=1)
NONE = TrialGroup()
DRAW = RecallOptions(holdout_share=0.5, max_distance=2.0)


def drawn(*, held_out: bool, share: float = 0.5) -> Iterator[str]:
    """Ids of runs that a lot by this share decides so."""
    names = (f"{share}-{number}" for number in count())
    return (name for name in names if is_held_out(name, share) is held_out)


def ends(
    library: Library, runs: Iterator[str], options: RecallOptions, *, well: bool, number: int = 3
) -> None:
    for run_id in islice(runs, number):
        recall_playbooks(library, run_id=run_id, task="rotate", options=options)
        record_run(library, ended(run_id) if well else ended(run_id, "failure", error="no"))


def test_no_run_is_held_out_before_the_store_has_enough_runs(library: Library) -> None:
    library.create(PlaybookContent(title="rotate certificates"))
    drawn = [
        recall_playbooks(library, run_id=f"r{n}", task="rotate", options=HOLD_OUT)
        for n in range(RUNS_BEFORE_HOLDOUT + 1)
    ]
    assert [one.held_out for one in drawn] == [False] * RUNS_BEFORE_HOLDOUT + [True]
    assert (drawn[-1].text, drawn[-1].shown) == ("", ())
    report = library.lift()
    assert (report.runs, report.held_out) == (RUNS_BEFORE_HOLDOUT + 1, 1)


def test_the_lift_compares_runs_with_and_without(library: Library) -> None:
    library.create(PlaybookContent(title="rotate certificates"))
    warm(library)
    ends(library, drawn(held_out=False), DRAW, well=True, number=MIN_RUNS_PER_SIDE)
    assert library.lift().overall.verdict.startswith("too few runs")
    ends(library, drawn(held_out=True), DRAW, well=False, number=MIN_RUNS_PER_SIDE)
    overall = library.lift().overall
    assert (overall.shown.share, overall.held_out.share, overall.verdict) == (1.0, 0.0, "helps")
    assert library.lift().playbooks[0].lift.verdict == "helps"


def test_only_runs_drawn_by_the_share_of_the_newest_are_compared(library: Library) -> None:
    library.create(PlaybookContent(title="rotate certificates"))
    ends(
        library,
        (f"{number}" for number in range(RUNS_BEFORE_HOLDOUT)),
        DRAW,
        well=False,
        number=RUNS_BEFORE_HOLDOUT,
    )
    assert (library.lift().share, library.lift().overall) == (None, Lift(shown=NONE, held_out=NONE))
    for share in (0.0, 0.2, 1.0):
        before = drawn(held_out=share == 1.0, share=share)
        ends(library, before, replace(DRAW, holdout_share=share), well=False)
    for held_out in (False, True):
        ends(library, drawn(held_out=held_out), DRAW, well=True)
    report = library.lift()
    all_well = TrialGroup(successes=3, runs=3)
    assert report.overall == Lift(shown=all_well, held_out=all_well)
    assert (report.share, report.playbooks[0].lift) == (0.5, report.overall)


def test_runs_whose_prompt_had_no_room_are_not_compared(library: Library) -> None:
    library.create(PlaybookContent(title="rotate certificates"))
    warm(library)
    for held_out in (False, True):
        ends(library, drawn(held_out=held_out), replace(DRAW, budget_tokens=1), well=True)
    report = library.lift()
    assert (report.held_out, report.overall) == (3, Lift(shown=NONE, held_out=NONE))


def warm(library: Library) -> None:
    for number in range(RUNS_BEFORE_HOLDOUT):
        recall_playbooks(library, run_id=f"w{number}", task="", options=SHOW_ALL)


def test_runs_held_out_are_compared_where_they_would_have_been_shown(library: Library) -> None:
    for title in ("rotate certificates", "rotate keys"):
        library.create(PlaybookContent(title=title))
    one = recall_playbooks(library, run_id="one", task="rotate certificates", options=SHOW_ONE)
    room = replace(SHOW_ALL, budget_tokens=estimate_tokens(one.text))
    warm(library)
    for held_out in (False, True):
        run_id, options = next(drawn(held_out=held_out)), replace(room, holdout_share=0.5)
        surfaced = recall_playbooks(
            library, run_id=run_id, task="rotate certificates", options=options
        )
        assert len(surfaced.results.hits) == 2
        assert bool(record_run(library, ended(run_id)).playbooks) is not held_out
    lift = {one.title: one for one in library.lift().playbooks}
    sides = [
        (lift[title].lift.shown.runs, lift[title].lift.held_out.runs) for title in sorted(lift)
    ]
    assert sides == [(1, 1), (0, 0)]


def test_a_resumed_run_keeps_its_draw(library: Library) -> None:
    library.create(PlaybookContent(title="rotate certificates"))
    first = recall_playbooks(library, run_id="r", task="rotate certificates", options=HOLD_OUT)
    warm(library)
    again = recall_playbooks(library, run_id="r", task="rotate certificates", options=HOLD_OUT)
    assert (first.held_out, again.held_out, again.text) == (False, False, first.text)


def test_a_verdict_on_a_run_held_out_counts_for_no_playbook(library: Library) -> None:
    made = library.create(PlaybookContent(title="rotate certificates"))
    warm(library)
    run = next(drawn(held_out=True))
    recall_playbooks(library, run_id=run, task="rotate certificates", options=DRAW)
    record_run(library, ended(run), verdict_later=True)
    assert say(library, made.id, run, "failure", "wait")[:2] == (True, "failure")
    assert say(library, made.id, run, "success")[:2] == (False, "failure")
    assert library.get(made.id).counts.total == 0
    assert [lesson.text for lesson in library.get(made.id).lessons] == ["wait"]
    assert [(e.run_id, e.outcome) for e in library.list_executions()] == [(run, "failure")]
    assert library.lift().overall.held_out.runs == 1
