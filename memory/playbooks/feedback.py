"""A person's word on how it went with a playbook: counted once, and nothing they said is lost."""

from typing import NamedTuple

from memory.database import write_transaction
from memory.playbooks import journal, recall, store
from memory.playbooks.lesson_vectors import embed_lessons
from memory.playbooks.lessons import AddedLessons, add_lessons
from memory.playbooks.library import Library
from memory.types import Execution, Outcome, Reflection


class FeedbackResult(NamedTuple):
    """What came of a person's word."""

    counted: bool
    """False: the run had its verdict on this playbook before."""
    outcome: Outcome
    """The one that stands."""
    lessons: AddedLessons
    held_out: bool = False
    """The run was shown no playbook, so the word is about the run alone."""


def record_feedback(library: Library, ref: str, said: Execution) -> FeedbackResult:
    """Count how it went with this playbook, all or nothing.

    What the run recorded of the playbook is settled if it waits, or waited in vain; what it
    recorded of others stays as it is. A run that was held out followed none: its own record is
    settled. Task and reflection are kept with it in any case, and the reflection's improvements
    become lessons at once.

    Raises:
        PlaybookNotFound: there is no such playbook; nothing was changed.
    """
    run_id, at = said.run_id, library.clock()
    words = said.reflection or Reflection()
    improvements = words.improvements
    with write_transaction(library.engine) as connection:
        key = store.get(connection, ref).key
        held_out = run_id is not None and recall.was_held_out(connection, run_id)
        followed = None if held_out else key
        known = journal.execution_of_run(connection, followed, run_id) if run_id else None
        counted = known is None and journal.record_execution(connection, followed, said, at)
        if known is not None:
            counted = journal.settle_execution(connection, known.id, said.outcome, at)
            journal.annotate_execution(connection, known.id, said)
        waiting = journal.execution_of_run(connection, None, run_id) if run_id else None
        ended = waiting is not None and journal.settle_execution(
            connection, waiting.id, said.outcome, at
        )
        if run_id and (ended or (counted and known)):
            recall.set_outcome(connection, run_id, said.outcome)
        journal.approve_failures(connection, key, words.what_failed)
        taught = add_lessons(connection, key, improvements, run_id=run_id, at=at)
        journal.mark_reflections_applied(connection, key)
    embed_lessons(library.engine, library.index, ref)
    outcome = said.outcome if counted or known is None else known.outcome
    return FeedbackResult(counted, outcome, taught, held_out)
