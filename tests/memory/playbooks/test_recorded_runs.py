"""Recall for runs, credit to playbooks, and their lift; on both databases."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count

import pytest
from sqlalchemy import select

from contracts.chat import ChatRequest, Message, Reply
from contracts.run import RunReport
from contracts.tool import ToolCall
from memory.database import read_transaction
from memory.errors import EntryNotFound
from memory.playbooks.learn import outcome_of, parse_reflection, record_run, reflect
from memory.playbooks.library import Library
from memory.playbooks.recall import (
    RecalledPlaybook,
    playbooks_known_to,
    recall_playbooks,
    suggest_playbooks,
)
from memory.playbooks.tools import run_playbook_tool
from memory.tables import recalls
from memory.types import (
    Execution,
    PlaybookContent,
    PlaybookQuery,
    RecallOptions,
    Reflection,
)
from tests.support.memory import Clock
from tests.support.memory_runs import SHOW_ALL, ended, say

LONG, DEEP = '{"n": %s}' % ("9" * 4_301), '{"n": %s}' % ("[" * 100_000)


def test_a_run_is_shown_fitting_playbooks_and_they_are_logged(library: Library) -> None:
    made = library.create(PlaybookContent(title="rotate certificates"))
    shown = recall_playbooks(library, run_id="r1", task="rotate certificates", options=SHOW_ALL)
    assert made.title in shown.text
    assert shown.shown == (made.id,)
    with read_transaction(library.engine) as connection:
        assert playbooks_known_to(connection, "r1") == [
            RecalledPlaybook(made.id, "untested", shown=True, cited=False)
        ]


def test_a_second_recall_of_a_run_shows_the_same_playbooks_and_logs_them_once(
    library: Library,
) -> None:
    library.create(PlaybookContent(title="rotate certificates"))
    first, again = (
        recall_playbooks(library, run_id="r1", task="rotate", options=SHOW_ALL) for _ in range(2)
    )
    assert first == again
    assert library.lift().runs == 1


def test_a_store_without_playbooks_gives_no_text(library: Library) -> None:
    shown = recall_playbooks(library, run_id="r1", task="anything", options=SHOW_ALL)
    assert (shown.text, shown.shown) == ("", ())


def test_a_stopped_and_resumed_run_counts_once_with_its_final_outcome(library: Library) -> None:
    record_run(library, ended("r1", "cancelled"))
    record_run(library, ended("r1", "success"))
    record_run(library, ended("r1", "cancelled"))
    assert [e.outcome for e in library.list_executions()] == ["success"]


def test_credit_goes_to_the_playbook_that_the_agent_named(library: Library) -> None:
    first = library.create(PlaybookContent(title="rotate certificates"))
    second = library.create(PlaybookContent(title="rotate keys"))
    recall_playbooks(library, run_id="r1", task="rotate certificates", options=SHOW_ALL)
    done = record_run(library, ended("r1", said=f"I followed [playbook:{second.slug}]."))
    assert done.playbooks == (second.id,)
    assert library.get(second.id).counts.successes == 1
    assert library.get(first.id).counts.total == 0
    (lift,) = [one for one in library.lift().playbooks if one.id == second.id]
    assert (lift.retrieved, lift.shown, lift.cited) == (1, 1, 1)


def test_credit_goes_to_a_playbook_that_the_agent_found_itself_and_read(library: Library) -> None:
    shown = library.create(PlaybookContent(title="rotate certificates"))
    found = library.create(PlaybookContent(title="kubernetes rollout"))
    strict = replace(SHOW_ALL, max_distance=0.0)
    for run_id, said in (("r1", ""), ("r2", f"[playbook:{found.slug}]")):
        surfaced = recall_playbooks(library, run_id=run_id, task="certificates", options=strict)
        assert surfaced.shown == (shown.id,)
        for _ in range(2):
            read(library, run_id, found.id)
        assert record_run(library, ended(run_id, said=said)).playbooks == (found.id,)
    read(library, "unlogged", found.id)
    (of_found,) = [one for one in library.lift().playbooks if one.id == found.id]
    assert (of_found.retrieved, of_found.shown, of_found.cited) == (2, 0, 2)
    assert of_found.lift.shown.runs == 0
    mine = library.create(PlaybookContent(title="made and read by the run itself"), source="run r1")
    read(library, "r1", mine.id)
    with read_transaction(library.engine) as connection:
        assert mine.id not in {one.playbook_id for one in playbooks_known_to(connection, "r1")}


def read(library: Library, run_id: str, playbook_id: str) -> None:
    asked = ToolCall(id="1", name="playbook_get", arguments=json.dumps({"id": playbook_id}))
    assert "error" not in json.loads(run_playbook_tool(library, asked, run_id=run_id))


def failing_in(library: Library) -> Iterator[str]:
    """Yield ids of runs that are not offered the failing playbook again."""
    query = PlaybookQuery(text="rotate certificates", max_distance=2.0)
    for number in count():
        if library.search_with_context(query, seed=f"r{number}").failing:
            yield f"r{number}"


def test_without_a_name_the_best_shown_gets_the_credit_and_a_failing_one_last(
    library: Library,
) -> None:
    bad = library.create(PlaybookContent(title="rotate certificates"))
    for _ in range(3):
        library.record_execution(Execution(playbook_id=bad.id, outcome="failure"))
    runs = failing_in(library)
    first, second = next(runs), next(runs)
    recall_playbooks(library, run_id=first, task="rotate certificates", options=SHOW_ALL)
    done = record_run(library, ended(first, "failure", error="1 failed"))
    assert done.playbooks == (bad.id,)
    good = library.create(PlaybookContent(title="rotate certificates well"))
    recall_playbooks(library, run_id=second, task="rotate certificates", options=SHOW_ALL)
    assert record_run(library, ended(second)).playbooks == (good.id,)


def test_a_playbook_with_six_successes_and_one_failure_is_shown_and_credited(
    library: Library,
) -> None:
    made = library.create(PlaybookContent(title="rotate certificates", process="ask certbot"))
    for outcome in (*["success"] * 6, "failure"):
        library.record_execution(Execution(playbook_id=made.id, outcome=outcome))  # type: ignore[arg-type]  # its words
    shown = recall_playbooks(library, run_id="r1", task="rotate certificates", options=SHOW_ALL)
    assert shown.shown == (made.id,)
    assert "6 of 7 runs succeeded" in shown.text
    assert "ask certbot" in shown.text
    assert record_run(library, ended("r1")).playbooks == (made.id,)
    recall_playbooks(library, run_id="r2", task="rotate certificates", options=SHOW_ALL)
    assert record_run(library, ended("r2", "failure", error="1 failed")).playbooks == (made.id,)
    counts = library.get(made.id).counts
    assert (counts.successes, counts.failures) == (7, 2)


@pytest.mark.parametrize("named", ["named", "not named"])
def test_a_failing_playbook_that_a_run_followed_is_credited_and_comes_back(
    library: Library, named: str
) -> None:
    made = library.create(PlaybookContent(title="rotate certificates"))
    for _ in range(3):
        library.record_execution(Execution(playbook_id=made.id, outcome="failure"))
    run_id = next(failing_in(library))
    shown = recall_playbooks(library, run_id=run_id, task="rotate certificates", options=SHOW_ALL)
    assert [hit.playbook.id for hit in shown.results.failing] == [made.id]
    said = f"[playbook:{made.slug}]" if named == "named" else ""
    assert record_run(library, ended(run_id, said=said)).playbooks == (made.id,)
    shown = recall_playbooks(library, run_id="next", task="rotate certificates", options=SHOW_ALL)
    assert [hit.playbook.id for hit in shown.results.promising] == [made.id]


def test_a_failing_playbook_is_offered_again_to_some_runs(library: Library) -> None:
    made = library.create(PlaybookContent(title="rotate certificates"))
    for _ in range(3):
        library.record_execution(Execution(playbook_id=made.id, outcome="failure"))
    query = PlaybookQuery(text="rotate certificates", max_distance=2.0)

    def is_offered(run: int) -> bool:
        return bool(library.search_with_context(query, seed=f"r{run}").untested)

    # The draw hangs on the playbook's random id too, so no number of runs is sure to be few.
    assert any(map(is_offered, range(2000)))
    assert not all(map(is_offered, range(2000)))


def test_recording_a_run_twice_counts_once(library: Library) -> None:
    made = library.create(PlaybookContent(title="rotate certificates"))
    recall_playbooks(library, run_id="r1", task="rotate certificates", options=SHOW_ALL)
    record_run(library, ended("r1"))
    record_run(library, ended("r1"))
    assert library.get(made.id).counts.total == 1
    assert library.stats().executions == 1


def test_a_run_without_playbooks_is_recorded_and_makes_none(library: Library) -> None:
    record_run(library, ended("r1"))
    record_run(library, ended("r1"))
    assert (library.stats().executions, library.list()) == (1, [])


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (ended("r"), "success"),
        (ended("r", "failure", error="1 failed"), "failure"),
        (ended("r", "failure"), "neutral"),
        (ended("r", "failure", error="raised ValueError", raised=True), "neutral"),
        (ended("r", "cancelled"), "neutral"),
        (ended("r", "waiting"), "neutral"),
    ],
)
def test_only_a_failed_node_counts_as_failure_of_a_playbook(
    report: RunReport, expected: str
) -> None:
    assert outcome_of(report) == expected


def test_a_later_verdict_is_counted_once_it_arrives(library: Library, clock: Clock) -> None:
    made = library.create(PlaybookContent(title="rotate certificates"))
    for run in ("r1", "r2"):
        recall_playbooks(library, run_id=run, task="rotate certificates", options=SHOW_ALL)
        assert record_run(library, ended(run), verdict_later=True).outcome == "pending"
    assert say(library, made.id, "r1", "failure").counted
    clock.pass_days(1.1)
    assert library.expire_pending() == 1
    counts = library.get(made.id).counts
    assert (counts.failures, counts.total) == (1, 1)


def test_feedback_settles_an_expired_execution_once(library: Library, clock: Clock) -> None:
    made = library.create(PlaybookContent(title="rotate certificates"))
    recall_playbooks(library, run_id="r1", task="rotate certificates", options=SHOW_ALL)
    record_run(library, ended("r1"), verdict_later=True)
    clock.pass_days(1.1)
    assert library.expire_pending() == 1
    assert say(library, made.id, "r1", "success")[:2] == (True, "success")
    assert say(library, made.id, "r1", "failure")[:2] == (False, "success")
    counts = library.get(made.id).counts
    assert (counts.successes, counts.total) == (1, 1)
    with read_transaction(library.engine) as connection:
        assert connection.execute(select(recalls.c.outcome)).scalar() == "success"


def test_of_concurrent_feedback_one_counts(library: Library, clock: Clock) -> None:
    made = library.create(PlaybookContent(title="rotate certificates"))
    library.record_execution(
        Execution(playbook_id=made.id, run_id="r1", outcome="pending", expires_at=clock())
    )
    assert library.expire_pending() == 1
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda _: say(library, made.id, "r1", "success").counted, range(8)))
    assert (told.count(True), library.get(made.id).counts.successes) == (1, 1)


def test_a_neutral_outcome_of_a_person_stays(library: Library) -> None:
    made = library.create(PlaybookContent(title="rotate certificates"))
    assert say(library, made.id, "r1", "neutral").counted
    assert say(library, made.id, "r1", "success")[:2] == (False, "neutral")
    assert library.get(made.id).counts.total == 0


def test_feedback_settles_only_the_named_playbook(library: Library) -> None:
    first, second = (
        library.create(PlaybookContent(title=title)) for title in ("keys", "certificates")
    )
    for one in (first, second):
        library.record_execution(Execution(playbook_id=one.id, run_id="r1", outcome="pending"))
    library.record_execution(Execution(run_id="r1", outcome="pending"))
    with pytest.raises(EntryNotFound):
        say(library, "nosuch", "r1", "failure")
    assert library.stats().pending == 3
    say(library, first.id, "r1", "failure")
    assert library.get(first.id).counts.failures == 1
    assert [e.outcome for e in library.list_executions(second.id)] == ["pending"]
    assert library.stats().pending == 1


def test_feedback_texts_are_stored_beside_those_of_the_run(library: Library) -> None:
    made = library.create(PlaybookContent(title="rotate certificates"))
    said = Reflection(what_failed=("too early",), improvements=("wait",))
    library.record_execution(
        Execution(playbook_id=made.id, run_id="r1", outcome="pending", task="t", reflection=said)
    )
    verdict = say(library, made.id, "r1", "failure", "run the tests", "b", "B!", "c", "d")
    assert verdict.lessons.added == ["run the tests", "b", "c"]
    assert verdict.lessons.rejected == [
        ("B!", "the playbook has this lesson"),
        ("d", "at most 3 lessons are stored for run 'r1'"),
    ]
    (kept,) = library.waiting_reflections(made.id)
    assert (kept.task, kept.outcome) == ("typed", "failure")
    assert kept.reflection is not None
    assert kept.reflection.what_failed == ("too early", "no tests")
    assert kept.reflection.improvements[:2] == ("wait", "run the tests")


def test_only_the_applied_reflection_stops_waiting(library: Library) -> None:
    made = library.create(PlaybookContent(title="rotate certificates"))
    waiting = [Reflection(improvements=(f"wait {n}",)) for n in range(3)]
    for one in waiting:
        library.record_execution(Execution(playbook_id=made.id, outcome="failure", reflection=one))
    library.add_lessons(made.id, ["a lesson of a person"])
    assert len(library.waiting_reflections(made.id)) == 3
    library.apply_reflection(made.id, waiting[1])
    assert {e.reflection for e in library.waiting_reflections()} == {waiting[0], waiting[2]}


def test_a_reflection_with_should_update_false_does_not_wait(library: Library) -> None:
    made = library.create(PlaybookContent(title="rotate certificates"))
    said = Reflection(improvements=("wait",), should_update=False)
    library.record_execution(Execution(playbook_id=made.id, outcome="failure", reflection=said))
    assert library.list_executions(made.id)[0].reflection == said
    assert library.waiting_reflections() == []


def test_a_model_reflects_and_its_answer_is_cut_to_three_lessons() -> None:
    def complete(request: ChatRequest) -> Reply:
        assert "1 failed" in request.messages[0].content
        said = 'Sure: {"what_worked": [], "what_failed": ["x"], "improvements": ["1","2","3","4"]}'
        return Reply(message=Message(role="assistant", content=said))

    found = reflect(complete, "any", ended("r", "failure", error="1 failed"))
    assert found == Reflection(what_failed=("x",), improvements=("1", "2", "3"))


@pytest.mark.parametrize(
    "said", ["", "no idea", "{", '{"improvements": 3}', "[]", '{"a": }', LONG, DEEP]
)
def test_an_answer_that_is_no_reflection_is_none(said: str) -> None:
    assert parse_reflection(said) is None


def test_drafts_do_not_displace_reviewed_playbooks(library: Library) -> None:
    kept = library.create(
        PlaybookContent(title="Rotate the signing keys", use_case="keys are due", status="active")
    )
    for number in range(8):
        library.record_execution(
            Execution(playbook_id=kept.id, run_id=f"r{number}", outcome="success")
        )
    for number in range(70):  # more than an arm names
        title = f"Rotate the signing keys, {number}"
        library.create(PlaybookContent(title=title, use_case="keys are due", status="draft"))
    shown = recall_playbooks(
        library, run_id="r", task="rotate the signing keys", options=RecallOptions()
    )
    assert shown.shown == (kept.id,)
    assert kept.id in suggest_playbooks(library, "rotate the signing keys")
