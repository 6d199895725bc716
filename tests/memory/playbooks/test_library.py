"""Playbooks from creation to deletion, on both databases."""

from dataclasses import replace

import pytest

from memory.errors import EntryInvalid, EntryNotFound, StaleUpdate
from memory.playbooks.learn import record_feedback
from memory.playbooks.library import Library
from memory.types import (
    Execution,
    PlaybookChanges,
    PlaybookContent,
    PlaybookFilter,
    PlaybookQuery,
    PlaybookStep,
    Reflection,
    StepResult,
)
from tests.support.memory import Clock, WordEmbedder

DEPLOY = PlaybookContent(
    title="Deploy to production",
    use_case="Ship a Go service safely",
    steps=(
        PlaybookStep(action="Run the tests", expected="all pass"),
        PlaybookStep(action="Push the image"),
    ),
    category="deployment",
    tags=("go", "deploy"),
    notes="slow on Mondays",
)


def test_a_created_playbook_has_its_content(library: Library) -> None:
    made = library.create(DEPLOY)
    found = library.get(made.slug)
    assert found == library.get(made.id) == made
    assert (found.slug, found.version, found.tags) == ("deploy-to-production", 1, ("deploy", "go"))
    assert [step.order for step in found.steps] == [1, 2]


def test_equal_titles_get_slugs_of_their_own(library: Library) -> None:
    first, second = library.create(DEPLOY), library.create(DEPLOY)
    assert first.slug != second.slug
    assert second.slug.startswith(first.slug)


def test_a_slug_as_long_as_an_id_finds_its_playbook(library: Library) -> None:
    made = library.create(PlaybookContent(title="deploy the service to production now"))
    assert len(made.slug) == len(made.id)
    assert library.get(made.slug) == library.get(made.id) == made
    assert library.delete(made.slug) is True


def test_a_list_is_filtered_by_category_and_all_tags(library: Library) -> None:
    made = library.create(DEPLOY)
    library.create(PlaybookContent(title="Other", category="deployment", tags=("go",)))
    assert library.list(PlaybookFilter(category="deployment", tags=("go", "deploy"))) == [made]
    assert library.list(PlaybookFilter(category="none")) == []


def test_a_limit_of_zero_lists_nothing(library: Library) -> None:
    library.create(DEPLOY)
    assert library.list(limit=0) == []


def test_a_limit_beyond_all_numbers_lists_all(library: Library) -> None:
    made = library.create(DEPLOY)
    assert library.list(limit=10**20) == [made]
    (hit,) = library.search(PlaybookQuery(text=DEPLOY.title, limit=10**20, max_distance=2))
    assert set(hit.arm_ranks) == {"words", "vectors"}


def test_an_update_changes_named_fields_and_clears_empty_ones(library: Library) -> None:
    made = library.create(DEPLOY)
    after = library.update(made.id, PlaybookChanges(notes="", category=""))
    assert (after.notes, after.category, after.version) == ("", "", 2)
    assert (after.title, after.steps) == (made.title, made.steps)


def test_a_stale_update_is_refused_with_both_versions(library: Library) -> None:
    made = library.create(DEPLOY)
    library.update(made.id, PlaybookChanges(notes="theirs"))
    with pytest.raises(StaleUpdate, match=r"at version 2 now; .* on version 1"):
        library.update(made.id, PlaybookChanges(notes="mine"), expected_version=1)
    assert library.get(made.id).notes == "theirs"


def test_undo_restores_the_previous_content_of_a_playbook_as_a_new_version(
    library: Library,
) -> None:
    made = library.create(DEPLOY)
    library.update(made.id, PlaybookChanges(title="Something else"))
    undone = library.undo(made.id)
    assert (undone.title, undone.version) == (made.title, 3)
    assert [version.version for version in library.history(made.id)] == [3, 2, 1]


def test_undo_can_restore_any_earlier_version(library: Library) -> None:
    made = library.create(PlaybookContent(title="deploy", notes="v1"))
    for notes in ("v2", "v3"):
        library.update(made.id, PlaybookChanges(notes=notes))
    assert [library.undo(made.id, to=version).notes for version in (1, 2, 3)] == ["v1", "v2", "v3"]
    assert library.get(made.id).version == 6
    for version in (0, 6, 9):
        with pytest.raises(EntryInvalid, match=f"earlier version {version}. Known: 1, 2, 3, 4, 5"):
            library.undo(made.id, to=version)


def test_undo_without_a_change_is_refused(library: Library) -> None:
    with pytest.raises(EntryInvalid, match="nothing to undo"):
        library.undo(library.create(DEPLOY).id)


def test_deleting_says_whether_there_was_one(library: Library) -> None:
    made = library.create(DEPLOY)
    assert library.delete(made.id) is True
    assert library.delete(made.id) is False
    assert library.search(PlaybookQuery(text="deploy to production")) == []
    with pytest.raises(EntryNotFound, match="no playbook has the id or slug"):
        library.get(made.id)


def test_executions_are_counted_and_partial_counts_as_success(library: Library) -> None:
    made = library.create(DEPLOY)
    for outcome in ("success", "partial", "failure", "neutral"):
        library.record_execution(Execution(playbook_id=made.id, outcome=outcome))
    counts = library.get(made.id).counts
    assert (counts.succeeded, counts.failures, counts.total) == (2, 1, 3)
    assert library.get(made.id).version == 1


def test_an_execution_is_counted_once_however_often_it_is_recorded(library: Library) -> None:
    made = library.create(DEPLOY)
    execution = Execution(playbook_id=made.id, run_id="r1", outcome="success")
    assert [library.record_execution(execution) for _ in range(3)] == [True, False, False]
    named = Execution(id="same", playbook_id=made.id, outcome="success")
    assert [library.record_execution(named) for _ in range(2)] == [True, False]
    assert library.get(made.id).counts.total == 2


def test_an_execution_comes_back_with_its_steps(library: Library) -> None:
    made = library.create(DEPLOY)
    step = StepResult(name="tests", outcome="failure", output="1 failed\0", duration_ms=7)
    library.record_execution(
        Execution(playbook_id=made.id, outcome="failure", step_results=(step,))
    )
    (found,) = library.list_executions(made.id, limit=10)
    assert (found.playbook_id, found.step_results[0].name) == (made.id, "tests")
    assert "\0" not in found.step_results[0].output


def test_a_pending_execution_counts_once_feedback_arrives(library: Library) -> None:
    made = library.create(DEPLOY)
    library.record_execution(Execution(playbook_id=made.id, run_id="r1", outcome="pending"))
    assert library.get(made.id).counts.total == 0
    said = Execution(run_id="r1", outcome="success")
    assert record_feedback(library, made.id, said).counted
    assert not record_feedback(library, made.id, replace(said, outcome="failure")).counted
    assert library.get(made.id).counts.successes == 1


def test_a_pending_execution_expires_as_neutral(library: Library, clock: Clock) -> None:
    made = library.create(DEPLOY)
    until = clock.now.replace(hour=23)
    library.record_execution(
        Execution(playbook_id=made.id, run_id="r1", outcome="pending", expires_at=until)
    )
    assert library.expire_pending() == 0
    clock.pass_days(1)
    assert library.expire_pending() == 1
    assert library.list_executions(made.id)[0].outcome == "neutral"
    assert library.get(made.id).counts.total == 0


def test_a_reflection_waits_for_a_person(library: Library) -> None:
    made = library.create(DEPLOY)
    said = Reflection(improvements=("Wait for the probe",))
    library.record_execution(
        Execution(playbook_id=made.id, run_id="r1", outcome="success", reflection=said)
    )
    assert library.get(made.id).lessons == ()
    assert [e.run_id for e in library.waiting_reflections()] == ["r1"]
    assert library.apply_reflection(made.id, said, run_id="r1") == ["Wait for the probe"]
    assert library.waiting_reflections() == []


def test_a_run_leaves_three_lessons_at_the_most(library: Library) -> None:
    first, second = library.create(DEPLOY), library.create(DEPLOY)
    assert len(library.add_lessons(first.id, ["a", "b"], run_id="r1")) == 2
    assert library.add_lessons(second.id, ["c", "d", "e"], run_id="r1") == ["c"]


def test_only_exact_restatements_of_a_lesson_are_merged(library: Library) -> None:
    made = library.create(DEPLOY)
    library.add_lessons(made.id, ["Use port 80"], run_id="r1")
    assert library.add_lessons(made.id, ["use  port 80!"], run_id="r2") == []
    assert library.add_lessons(made.id, ["Use port 81"], run_id="r3") == ["Use port 81"]
    for number, (before, after) in enumerate(
        [("retry 1 times", "retry -1 times"), ("compile C", "compile C++"), ("t > 6", "t < 6")]
    ):
        assert library.add_lessons(made.id, [before, after], run_id=f"s{number}") == [before, after]


def test_the_lessons_most_similar_to_the_query_come_first(
    library: Library, words: WordEmbedder
) -> None:
    made = library.create(DEPLOY)
    library.add_lessons(made.id, ["mind the database migration", "mind the go compiler"])
    (hit,) = library.search(PlaybookQuery(text="deploy with a database migration", max_distance=2))
    assert "mind the database migration" in words.texts
    assert hit.lessons[0].text == "mind the database migration"


def test_stats_count_the_store(library: Library) -> None:
    made = library.create(DEPLOY)
    library.update(library.create(DEPLOY).id, PlaybookChanges(status="archived"))
    library.record_execution(Execution(playbook_id=made.id, outcome="success"))
    stats = library.stats()
    assert (stats.playbooks, stats.archived, stats.executions) == (1, 1, 1)
    assert stats.by_category == {"deployment": 1}
    assert stats.average_confidence == pytest.approx(0.2065, abs=1e-4)


def test_an_archived_playbook_stays_archived(library: Library) -> None:
    made = library.create(DEPLOY)
    library.update(made.id, PlaybookChanges(status="archived"))
    library.update(made.id, PlaybookChanges(notes="changed"))
    library.record_execution(Execution(playbook_id=made.id, outcome="success"))
    library.reindex()
    assert library.get(made.id).status == "archived"
    assert library.search(PlaybookQuery(text="deploy to production", max_distance=2)) == []
    assert library.list() == []
    wide = PlaybookQuery(text="deploy to production", filter=PlaybookFilter(archived=True))
    assert [hit.playbook.id for hit in library.search(wide)] == [made.id]


def test_prune_archives_stale_playbooks_and_a_dry_run_changes_nothing(
    library: Library, clock: Clock
) -> None:
    made = library.create(DEPLOY)
    clock.pass_days(91)
    assert [p.id for p, _ in library.prune(dry_run=True)] == [made.id]
    assert library.get(made.id).status == "active"
    assert [p.id for p, _ in library.prune()] == [made.id]
    assert library.get(made.id).status == "archived"
    assert library.prune() == []
