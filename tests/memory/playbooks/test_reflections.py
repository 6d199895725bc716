"""Lessons of runs: they wait, with or without a playbook, and are shown as observations."""

import json

import pytest

from contracts.chat import ChatRequest, Message, Reply
from memory.playbooks.learn import can_reflect, credited_playbook, record_run, reflect
from memory.playbooks.library import Library
from memory.playbooks.recall import recall_playbooks
from memory.types import Execution, PlaybookContent, PlaybookQuery
from tests.support.memory_runs import HOLD_OUT, SHOW_ALL, ended

RULE = "Build the wheel first"


def learn(library: Library, run_id: str, *, new_playbook: str = "", said: str = RULE) -> list[str]:
    """Record a failed run and what a model concludes from it; return the prompts of the model."""
    prompts: list[str] = []

    def complete(request: ChatRequest) -> Reply:
        prompts.append(request.messages[0].content)
        answer = json.dumps({"improvements": [said], "new_playbook": new_playbook})
        return Reply(message=Message(role="assistant", content=answer))

    report = ended(run_id, "failure", error="1 failed")
    recall_playbooks(library, run_id=run_id, task="publish a package", options=SHOW_ALL)
    if can_reflect(library, report):
        found = reflect(complete, "any", report, credited_playbook(library, report))
        record_run(library, report, reflection=found)
    return prompts


def accept_all(library: Library) -> None:
    for execution in library.waiting_reflections():
        library.accept_reflection(execution)


def test_a_failed_run_without_a_playbook_becomes_one_once_a_person_accepts(
    library: Library,
) -> None:
    learn(library, "r1", new_playbook="Publish a package")
    assert library.list() == []
    accept_all(library)
    (made,) = library.list()
    assert (made.title, made.source, made.status) == ("Publish a package", "run r1", "active")
    assert [(lesson.text, lesson.run_id) for lesson in made.lessons] == [(RULE, "r1")]
    assert library.waiting_reflections() == []


def test_two_runs_about_the_same_work_make_one_playbook(library: Library) -> None:
    learn(library, "r1", new_playbook="Publish a package")
    learn(library, "r2", new_playbook="publish a package", said="Tag the release")
    accept_all(library)
    (made,) = library.list()
    assert {lesson.text for lesson in made.lessons} == {RULE, "Tag the release"}


def test_a_lesson_about_other_work_does_not_go_to_the_shown_playbook(library: Library) -> None:
    other = library.create(PlaybookContent(title="bake bread", use_case="dough"))
    (prompt,) = learn(library, "r1", new_playbook="Publish a package")
    assert "Playbook: bake bread" in prompt
    assert library.get(other.id).counts.failures == 1
    accept_all(library)
    assert library.get(other.id).lessons == ()
    assert [lesson.text for lesson in library.get("publish-a-package").lessons] == [RULE]


def test_a_lesson_about_the_shown_playbook_goes_to_it(library: Library) -> None:
    made = library.create(PlaybookContent(title="publish a package"))
    learn(library, "r1")
    accept_all(library)
    assert [lesson.text for lesson in library.get(made.id).lessons] == [RULE]


def test_a_refused_lesson_waits_no_longer_and_is_never_shown(library: Library) -> None:
    learn(library, "r1", new_playbook="Publish a package")
    (waiting,) = library.waiting_reflections()
    assert library.refuse_reflection(waiting)
    assert (library.waiting_reflections(), library.list()) == ([], [])
    assert not library.refuse_reflection(waiting)


def test_a_run_that_was_held_out_teaches_nothing(library: Library) -> None:
    library.create(PlaybookContent(title="publish a package"))
    for number in range(30):  # the first runs of a store are never held out
        run_id = f"r{number}"
        recall_playbooks(library, run_id=run_id, task="publish a package", options=HOLD_OUT)
    report = ended("r29", "failure", error="1 failed")
    assert not can_reflect(library, report)


@pytest.mark.parametrize("run_id", ["r1", None])
def test_a_lesson_from_a_run_is_shown_as_an_observation_with_its_origin(
    library: Library, run_id: str | None
) -> None:
    made = library.create(PlaybookContent(title="publish a package"))
    library.add_lessons(made.id, [RULE], run_id=run_id)
    text = recall_playbooks(library, run_id="r2", task="publish", options=SHOW_ALL).text
    expected = f'observed in run r1: "{RULE}"' if run_id else RULE
    assert f"  - {expected}\n" in text


def test_the_author_of_a_playbook_that_a_run_wrote_is_shown(library: Library) -> None:
    library.create(PlaybookContent(title="publish a package"), source="run r1")
    text = recall_playbooks(library, run_id="r2", task="publish", options=SHOW_ALL).text
    assert "executions: 0, written by run r1)" in text


def test_a_search_with_context_gives_lessons_with_their_runs(library: Library) -> None:
    made = library.create(PlaybookContent(title="publish a package"))
    library.record_execution(Execution(playbook_id=made.id, outcome="success"))
    library.add_lessons(made.id, [RULE], run_id="r1")
    (hit,) = library.search_with_context(PlaybookQuery(text="publish")).promising
    assert [(lesson.text, lesson.run_id) for lesson in hit.lessons] == [(RULE, "r1")]
