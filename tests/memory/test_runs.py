"""What runs are shown, who gets the credit, and whether it helps; on both databases."""

import pytest

from contracts.chat import ChatRequest, Message, Reply
from contracts.run import NodeReport, NodeStatus, RunReport, RunStatus
from memory.around_run import Surfacing
from memory.database import reading
from memory.learn import outcome_of, parse_reflection, record, reflect, settle
from memory.library import Library
from memory.recall import WARM_UP, shown_to, surface
from memory.tools import suggest
from memory.types import Content, Execution, Reflection
from tests.memory.conftest import Clock

SHOW_ALL = Surfacing(holdout_share=0.0, max_distance=2.0)
HOLD_OUT = Surfacing(holdout_share=1.0, max_distance=2.0)


def ended(run_id: str, status: RunStatus = "success", said: str = "", error: str = "") -> RunReport:
    node: NodeStatus = "failure" if error else "success"
    report = NodeReport(name="fix", type="agentic", status=node, output=said, error=error or None)
    return RunReport(run_id=run_id, blueprint="fix-tests", status=status, nodes=(report,))


def test_a_run_is_shown_what_fits_and_the_log_says_what(library: Library) -> None:
    made = library.create(Content(title="rotate certificates"))
    shown = surface(library, run_id="r1", task="rotate certificates", options=SHOW_ALL)
    assert made.title in shown.text
    assert shown.shown == (made.id,)
    with reading(library.engine) as connection:
        assert shown_to(connection, "r1") == [(made.id, "untested", False)]


def test_surfacing_again_for_the_same_run_shows_the_same_and_logs_once(library: Library) -> None:
    library.create(Content(title="rotate certificates"))
    first, again = (
        surface(library, run_id="r1", task="rotate", options=SHOW_ALL) for _ in range(2)
    )
    assert first == again
    assert library.lift().runs == 1


def test_a_store_without_playbooks_gives_no_text(library: Library) -> None:
    shown = surface(library, run_id="r1", task="anything", options=SHOW_ALL)
    assert (shown.text, shown.shown) == ("", ())


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


def test_a_run_that_was_stopped_and_went_on_counts_once_as_it_ended(library: Library) -> None:
    record(library, ended("r1", "cancelled"))
    record(library, ended("r1", "success"))
    record(library, ended("r1", "cancelled"))
    assert [e.outcome for e in library.list_executions()] == ["success"]


def test_credit_goes_to_the_playbook_that_the_agent_named(library: Library) -> None:
    first = library.create(Content(title="rotate certificates"))
    second = library.create(Content(title="rotate keys"))
    surface(library, run_id="r1", task="rotate certificates", options=SHOW_ALL)
    done = record(library, ended("r1", said=f"I followed [playbook:{second.slug}]."))
    assert done.playbooks == (second.id,)
    assert library.get(second.id).counts.successes == 1
    assert library.get(first.id).counts.total == 0
    (lift,) = [one for one in library.lift().playbooks if one.id == second.id]
    assert (lift.retrieved, lift.shown, lift.cited) == (1, 1, 1)


def test_without_a_name_the_best_shown_gets_the_credit_but_never_a_failed_one(
    library: Library,
) -> None:
    bad = library.create(Content(title="rotate certificates"))
    library.record_execution(Execution(playbook_id=bad.id, outcome="failure"))
    surface(library, run_id="r1", task="rotate certificates", options=SHOW_ALL)
    assert record(library, ended("r1")).playbooks == ()
    good = library.create(Content(title="rotate certificates well"))
    surface(library, run_id="r2", task="rotate certificates", options=SHOW_ALL)
    assert record(library, ended("r2")).playbooks == (good.id,)


def test_recording_a_run_twice_counts_once(library: Library) -> None:
    made = library.create(Content(title="rotate certificates"))
    surface(library, run_id="r1", task="rotate certificates", options=SHOW_ALL)
    record(library, ended("r1"))
    record(library, ended("r1"))
    assert library.get(made.id).counts.total == 1
    assert library.stats().executions == 1


def test_a_run_without_playbooks_is_recorded_and_makes_none(library: Library) -> None:
    record(library, ended("r1"))
    record(library, ended("r1"))
    assert (library.stats().executions, library.list()) == (1, [])


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (ended("r"), "success"),
        (ended("r", "failure", error="1 failed"), "failure"),
        (ended("r", "failure"), "neutral"),
        (ended("r", "cancelled"), "neutral"),
        (ended("r", "waiting"), "neutral"),
    ],
)
def test_only_a_failed_node_is_held_against_a_playbook(report: RunReport, expected: str) -> None:
    assert outcome_of(report) == expected


def test_a_verdict_that_comes_later_is_counted_then(library: Library, clock: Clock) -> None:
    made = library.create(Content(title="rotate certificates"))
    for run in ("r1", "r2"):
        surface(library, run_id=run, task="rotate certificates", options=SHOW_ALL)
        assert record(library, ended(run), verdict_later=True).outcome == "pending"
    assert settle(library, "r1", "failure") == 1
    clock.pass_days(1.1)
    assert library.expire_pending() == 1
    counts = library.get(made.id).counts
    assert (counts.failures, counts.total) == (1, 1)


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


def test_a_model_reflects_and_its_answer_is_cut_to_three_lessons() -> None:
    def complete(request: ChatRequest) -> Reply:
        assert "1 failed" in request.messages[0].content
        said = 'Sure: {"what_worked": [], "what_failed": ["x"], "improvements": ["1","2","3","4"]}'
        return Reply(message=Message(role="assistant", content=said))

    found = reflect(complete, "any", ended("r", "failure", error="1 failed"))
    assert found == Reflection(what_failed=("x",), improvements=("1", "2", "3"))


@pytest.mark.parametrize("said", ["", "no idea", "{", '{"improvements": 3}', "[]", '{"a": }'])
def test_an_answer_that_is_no_reflection_is_none(said: str) -> None:
    assert parse_reflection(said) is None


def test_drafts_crowd_out_nothing_that_proved_itself(library: Library) -> None:
    kept = library.create(
        Content(title="Rotate the signing keys", use_case="keys are due", status="active")
    )
    for number in range(8):
        library.record_execution(
            Execution(playbook_id=kept.id, run_id=f"r{number}", outcome="success")
        )
    for number in range(70):  # more than an arm names
        title = f"Rotate the signing keys, {number}"
        library.create(Content(title=title, use_case="keys are due", status="draft"))
    shown = surface(library, run_id="r", task="rotate the signing keys", options=Surfacing())
    assert shown.shown == (kept.id,)
    text, _ = suggest(library, prompt_id="p", prompt="rotate the signing keys")
    assert kept.id in text
