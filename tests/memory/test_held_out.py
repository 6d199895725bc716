"""Runs that are shown nothing, and what comparing the others with them says; on both databases."""

from dataclasses import replace

from memory.around_run import Surfacing
from memory.learn import record
from memory.library import Library
from memory.recall import WARM_UP, surface
from memory.render import tokens
from memory.types import Content
from tests.memory.test_runs import HOLD_OUT, SHOW_ALL, ended, say

SHOW_ONE = Surfacing(holdout_share=0.0, max_distance=2.0, limit=1)


def test_runs_are_held_out_only_once_the_store_is_warm(library: Library) -> None:
    library.create(Content(title="rotate certificates"))
    drawn = [
        surface(library, run_id=f"r{n}", task="rotate", options=HOLD_OUT)
        for n in range(WARM_UP + 1)
    ]
    assert [one.held_out for one in drawn] == [False] * WARM_UP + [True]
    assert (drawn[-1].text, drawn[-1].shown) == ("", ())
    report = library.lift()
    assert (report.runs, report.held_out) == (WARM_UP + 1, 1)


def test_the_lift_compares_runs_with_and_without(library: Library) -> None:
    library.create(Content(title="rotate certificates"))
    for number in range(WARM_UP):
        surface(library, run_id=f"a{number}", task="rotate", options=SHOW_ALL)
        record(library, ended(f"a{number}"))
    assert library.lift().overall.verdict.startswith("too thin")
    for number in range(WARM_UP):
        surface(library, run_id=f"b{number}", task="rotate", options=HOLD_OUT)
        record(library, ended(f"b{number}", "failure", error="no"))
    overall = library.lift().overall
    assert (overall.shown.share, overall.held_out.share, overall.verdict) == (1.0, 0.0, "helps")
    assert library.lift().playbooks[0].lift.verdict == "helps"


def warm(library: Library) -> None:
    for number in range(WARM_UP):
        surface(library, run_id=f"w{number}", task="", options=SHOW_ALL)


def test_runs_held_out_are_compared_where_they_would_have_been_shown(library: Library) -> None:
    for title in ("rotate certificates", "rotate keys"):
        library.create(Content(title=title))
    one = surface(library, run_id="one", task="rotate certificates", options=SHOW_ONE)
    room = replace(SHOW_ALL, budget_tokens=tokens(one.text))
    warm(library)
    for run_id, share in (("shown", 0.0), ("held", 1.0)):
        options = replace(room, holdout_share=share)
        surfaced = surface(library, run_id=run_id, task="rotate certificates", options=options)
        assert len(surfaced.found.hits) == 2
        assert bool(record(library, ended(run_id)).playbooks) is (run_id == "shown")
    lift = {one.title: one for one in library.lift().playbooks}
    sides = [
        (lift[title].lift.shown.runs, lift[title].lift.held_out.runs) for title in sorted(lift)
    ]
    assert sides == [(1, 1), (0, 0)]


def test_a_run_stays_as_it_was_drawn_when_it_goes_on(library: Library) -> None:
    library.create(Content(title="rotate certificates"))
    first = surface(library, run_id="r", task="rotate certificates", options=HOLD_OUT)
    warm(library)
    again = surface(library, run_id="r", task="rotate certificates", options=HOLD_OUT)
    assert (first.held_out, again.held_out, again.text) == (False, False, first.text)


def test_a_verdict_on_a_run_held_out_counts_for_no_playbook(library: Library) -> None:
    made = library.create(Content(title="rotate certificates"))
    warm(library)
    surface(library, run_id="r", task="rotate certificates", options=HOLD_OUT)
    record(library, ended("r"), verdict_later=True)
    assert say(library, made.id, "r", "failure", "wait")[:2] == (True, "failure")
    assert say(library, made.id, "r", "success")[:2] == (False, "failure")
    assert library.get(made.id).counts.total == 0
    assert [lesson.text for lesson in library.get(made.id).lessons] == ["wait"]
    assert [(e.run_id, e.outcome) for e in library.list_executions()] == [("r", "failure")]
    assert library.lift().overall.held_out.runs == 1
