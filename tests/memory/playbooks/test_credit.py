"""Credit of runs to playbooks, and the executions stored for it; on both databases."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from contracts.run import Attempt, NodeReport, NodeResult, NodeStatus, NodeType, RunReport
from memory.database import read_transaction
from memory.playbooks.learn import can_reflect, outcome_of, record_run
from memory.playbooks.library import Library
from memory.playbooks.recall import playbooks_known_to, recall_playbooks
from memory.tables import recalls
from memory.types import Execution, Playbook, PlaybookChanges, PlaybookContent, Reflection
from tests.support.memory import Clock
from tests.support.memory_runs import SHOW_ALL, ended, say

BEGAN = datetime(2026, 1, 1, tzinfo=UTC).isoformat(timespec="seconds")


def line(
    name: str, type_: NodeType, status: NodeStatus = "success", *, said: str = "", error: str = ""
) -> NodeReport:
    return NodeReport(name=name, type=type_, status=status, output=said, error=error or None)


def of(*nodes: NodeReport, run_id: str = "r", failed: str | None = None) -> RunReport:
    return RunReport(
        run_id=run_id,
        blueprint="fix-tests",
        status="failure" if failed else "success",
        nodes=nodes,
        failed_node=failed,
    )


NOTHING_TO_FIX = of(
    line("reproduce", "deterministic"),
    line("fix", "agentic", "skipped"),
    line("verify", "validate", "skipped"),
)
NOT_READY = of(line("tools", "preflight", "failure", error="git is missing"), failed="tools")


def shown(library: Library, *titles: str, run_id: str = "r") -> list[Playbook]:
    """Playbooks that the run is shown, in their order."""
    made = [library.create(PlaybookContent(title=title)) for title in titles]
    recall_playbooks(library, run_id=run_id, task=titles[0], options=SHOW_ALL)
    with read_transaction(library.engine) as connection:
        known = [one.playbook_id for one in playbooks_known_to(connection, run_id)]
    return sorted(made, key=lambda playbook: known.index(playbook.id))


@pytest.mark.parametrize("report", [NOTHING_TO_FIX, NOT_READY])
def test_a_run_in_which_no_agent_worked_counts_for_nothing(
    library: Library, report: RunReport
) -> None:
    [playbook] = shown(library, "rotate certificates")
    assert not can_reflect(library, report)
    done = record_run(library, report, verdict_later=True)
    assert (done.outcome, done.playbooks) == ("neutral", ())
    now = library.get(playbook.id)
    assert (now.counts.total, now.last_used_at) == (0, None)
    assert library.lift().overall.shown.runs == 0
    assert say(library, playbook.id, "r", "success").counted


@pytest.mark.parametrize("worked", ["fix", "try-1"])
def test_an_agent_that_mends_or_competes_has_worked(worked: str) -> None:
    assert outcome_of(of(line("outer", "validate"), line(worked, "agentic"))) == "success"


def test_an_outage_after_a_lost_lane_is_no_failure(library: Library) -> None:
    [playbook] = shown(library, "rotate keys")
    lanes = (
        line("race", "compete"),
        line("race-1", "agentic", "failure", error="no"),
        line("race-2", "agentic", said=f"[playbook:{playbook.slug}]"),
    )
    outage = replace(of(*lanes), status="failure", error="the Docker daemon does not answer")
    assert record_run(library, outage).outcome == "neutral"
    assert record_run(library, of(*lanes, line("commit", "deterministic"))).outcome == "success"
    assert library.get(playbook.id).counts.successes == 1


def test_the_recorded_outcome_is_returned(library: Library) -> None:
    [playbook] = shown(library, "rotate keys", run_id="r1")
    record_run(library, ended("r1", "failure", error="1 failed"))
    assert record_run(library, ended("r1")).outcome == "failure"
    assert [e.outcome for e in library.list_executions(playbook.id)] == ["failure"]


def test_a_late_record_keeps_the_outcome_that_a_person_gave(library: Library) -> None:
    [playbook] = shown(library, "rotate keys", run_id="r1")
    record_run(library, ended("r1"), verdict_later=True)
    say(library, playbook.id, "r1", "failure")
    assert record_run(library, ended("r1"), verdict_later=True).outcome == "failure"
    with read_transaction(library.engine) as connection:
        assert connection.execute(select(recalls.c.outcome)).scalar() == "failure"


def test_the_best_named_playbook_gets_the_reflection(library: Library) -> None:
    lessons = Reflection(improvements=("one", "two", "three"))
    for number in range(4):  # by their ids the wrong one would be first now and then
        run_id = f"r{number}"
        best, other = shown(library, f"rotate {number}", f"tell {number}", run_id=run_id)
        said = f"[playbook:{other.slug}] after [playbook:{best.slug}]"
        done = record_run(library, ended(run_id, said=said), reflection=lessons)
        assert done.playbooks == (best.id, other.id)
        kept = [library.list_executions(one.id)[0].reflection for one in (best, other)]
        assert kept == [lessons, None]
        assert library.get(best.id).lessons == ()


def test_a_reflection_waits_until_all_its_improvements_are_lessons(library: Library) -> None:
    said = Reflection(improvements=("one", "two", "three"))
    made = library.create(PlaybookContent(title="rotate keys"))
    library.record_execution(
        Execution(playbook_id=made.id, run_id="r", outcome="success", reflection=said)
    )
    library.add_lessons(made.id, ["zero", "One!", "two"], run_id="r")
    assert len(library.waiting_reflections()) == 1
    assert library.apply_reflection(made.id, said, run_id="r") == ["three"]
    assert library.waiting_reflections() == []


def test_only_the_words_of_agents_name_a_playbook(library: Library) -> None:
    best, other = shown(library, "rotate keys", "tell")
    mends = NodeResult.success(f"[playbook:{best.slug}]")
    rounds = tuple(
        Attempt(number=number, steps={}, fix=fix)
        for number, fix in enumerate((mends, NodeResult.success("done"), None), 1)
    )
    test = line("test", "deterministic", said=f"hostile [playbook:{other.slug}]")
    verify = replace(line("verify", "validate", said=other.id), attempts=rounds)
    report = of(test, verify, line("fix", "agentic", said="done"))
    assert record_run(library, report).playbooks == (best.id,)
    assert [one.title for one in library.lift().playbooks if one.cited] == [best.title]


def test_a_playbook_first_shown_after_a_resume_can_be_credited(library: Library) -> None:
    [first] = shown(library, "rotate keys", run_id="r1")
    [second] = [one for one in shown(library, "rotate", run_id="r1") if one.id != first.id]
    with read_transaction(library.engine) as connection:
        known = [(one.playbook_id, one.shown) for one in playbooks_known_to(connection, "r1")]
    assert known == [(first.id, True), (second.id, True)]
    done = record_run(library, ended("r1", said=f"[playbook:{second.slug}]"))
    assert done.playbooks == (second.id,)


def test_an_execution_has_the_version_that_was_shown_and_when_its_run_began(
    library: Library, clock: Clock
) -> None:
    [playbook] = shown(library, "rotate keys", run_id="r1")
    recall_playbooks(library, run_id="r2", task="rotate keys", options=SHOW_ALL)
    library.update(playbook.id, PlaybookChanges(process="another way"))
    record_run(library, replace(ended("r1"), started_at=BEGAN))
    say(library, playbook.id, "r2", "success")
    say(library, playbook.id, "elsewhere", "success")
    kept = {e.run_id: e for e in library.list_executions(playbook.id)}
    assert [kept[run].playbook_version for run in ("r1", "r2", "elsewhere")] == [1, 1, 2]
    assert kept["r1"].started_at == datetime.fromisoformat(BEGAN)
    shown_at = kept["r2"].started_at
    assert shown_at is not None
    assert datetime.fromisoformat(BEGAN) < shown_at < clock()
    assert kept["elsewhere"].started_at is None
