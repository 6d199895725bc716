"""Executions of playbooks and the counters on playbooks; each execution is counted once."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from uuid import uuid4

from pydantic import TypeAdapter
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Text,
    and_,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError

from memory.content import sanitize_text, to_json
from memory.database import lock_until_commit
from memory.errors import EntryInvalid
from memory.playbooks.usefulness import WINDOW, RecentOutcomes, weigh_outcomes
from memory.playbooks.write import missing_lessons
from memory.tables import entries, entry_versions, executions, recalls
from memory.types import Execution, Outcome, Reflection, StepResult

OUTPUT_LIMIT = 4_000
"""Characters stored of a step's output: the last ones, where errors are."""

_STEPS = TypeAdapter(tuple[StepResult, ...])
_REFLECTION = TypeAdapter(Reflection | None)
_COUNTERS = {"success": "successes", "partial": "partials", "failure": "failures"}
_HAS_EXPIRED = and_(executions.c.outcome == "neutral", executions.c.expires_at.is_not(None))
_HAS_REFLECTION = cast(executions.c.reflection, Text) != "null"
_IS_OPEN = or_(executions.c.outcome == "pending", _HAS_EXPIRED)


def record_execution(
    connection: Connection, key: int | None, execution: Execution, at: datetime
) -> bool:
    """Insert an execution and count it; return False if it is already recorded.

    A version and a start that it does not name are those of the time when the run was shown
    playbooks; without a run, the version is the present one.
    """
    of_run = recalls.c.run_id == sanitize_text(execution.run_id or "")
    shown_at = connection.execute(select(recalls.c.at).where(of_run)).scalar()
    version = execution.playbook_version
    if version is None and key is not None:
        version = _version_at(connection, key, shown_at)
    started_at = execution.started_at or shown_at
    execution = replace(execution, playbook_version=version, started_at=started_at)
    is_new = import_execution(connection, key, execution, at)
    if is_new and key is not None:
        _count(connection, key, execution.outcome, execution.completed_at or at)
    return is_new


def import_execution(
    connection: Connection, key: int | None, execution: Execution, at: datetime
) -> bool:
    """Insert an execution without counting it; return False if it is already recorded.

    Raises:
        EntryInvalid: its id or run id has a NUL byte or is too long.
    """
    _check_id("id", execution.id, 36)
    _check_id("run_id", execution.run_id or "", 64)
    if execution.run_id is not None:
        if key is None:  # no unique constraint covers a NULL key
            lock_until_commit(connection, f"run {execution.run_id}")
        if execution_of_run(connection, key, execution.run_id) is not None:
            return False
    try:
        with connection.begin_nested():
            connection.execute(insert(executions).values(**_columns(key, execution, at)))
    except IntegrityError:
        return False
    return True


def delete_neutral(connection: Connection, run_id: str) -> None:
    """Delete a run's neutral executions, which are not counted."""
    of_run = (executions.c.run_id == run_id, executions.c.outcome == "neutral")
    connection.execute(delete(executions).where(*of_run))


def settle_execution(
    connection: Connection, execution_id: str, outcome: Outcome, at: datetime
) -> bool:
    """Give a pending or expired execution its outcome and count it; False if it has one."""
    changed = connection.execute(
        update(executions)
        .where(executions.c.id == execution_id, _IS_OPEN)
        .values(outcome=outcome, expires_at=None)
        .returning(executions.c.playbook_key)
    ).first()
    if changed is not None and changed.playbook_key is not None:
        _count(connection, changed.playbook_key, outcome, at)
    return changed is not None


def expire_pending(connection: Connection, at: datetime) -> int:
    """Make pending executions neutral when their time is over; return how many.

    `expires_at` stays set, which marks them as expired: a later outcome still settles them.
    """
    late = (executions.c.outcome == "pending", executions.c.expires_at <= at)
    return connection.execute(update(executions).where(*late).values(outcome="neutral")).rowcount


def list_executions(
    connection: Connection,
    key: int | None = None,
    *,
    outcome: Outcome | None = None,
    limit: int | None = None,
) -> list[Execution]:
    """Return executions of one playbook, or of all, the newest first."""
    conditions = [] if key is None else [executions.c.playbook_key == key]
    if outcome is not None:
        conditions.append(executions.c.outcome == outcome)
    return _newest(connection, *conditions, limit=limit)


def recent_outcomes(connection: Connection, keys: Collection[int]) -> dict[int, RecentOutcomes]:
    """Return the weights of each playbook's latest counted executions."""
    if not keys:
        return {}
    newest = (executions.c.completed_at.desc(), executions.c.id)
    age = func.row_number().over(partition_by=executions.c.playbook_key, order_by=newest)
    counted = (executions.c.playbook_key.in_(keys), executions.c.outcome.in_(_COUNTERS))
    columns = (executions.c.playbook_key, executions.c.outcome, age.label("age"))
    ranked = select(*columns).where(*counted).subquery()
    query = select(ranked).where(ranked.c.age <= WINDOW).order_by(ranked.c.age)
    found: dict[int, list[bool]] = {}
    for key, outcome, _ in connection.execute(query):
        found.setdefault(key, []).append(outcome != "failure")
    return {key: weigh_outcomes(outcomes) for key, outcomes in found.items()}


def execution_of_run(connection: Connection, key: int | None, run_id: str) -> Execution | None:
    """Return a run's execution of the playbook with this key; None as key: of no playbook."""
    column = executions.c.playbook_key
    of_playbook = column.is_(None) if key is None else column == key
    found = _newest(connection, executions.c.run_id == run_id, of_playbook, limit=1)
    return found[0] if found else None


def annotate_execution(connection: Connection, execution_id: str, feedback: Execution) -> None:
    """Replace an execution's task by that of the feedback, and add the feedback's reflection."""
    is_it = executions.c.id == execution_id
    values: dict[str, object] = {"task": _task(feedback)} if feedback.task else {}
    if feedback.reflection is not None:
        query = select(executions.c.reflection).where(is_it).with_for_update()
        before = _REFLECTION.validate_python(connection.execute(query).scalar_one())
        merged = _merge(before, feedback.reflection) if before else feedback.reflection
        values["reflection"] = _REFLECTION.dump_python(merged, mode="json")
    if values:
        connection.execute(update(executions).where(is_it).values(**values))


def waiting_reflections(connection: Connection, key: int | None = None) -> list[Execution]:
    """Return executions whose reflection waits for a person, the newest first.

    Of the playbook with this key, without reflections that ask for a new one; or all.
    """
    of_playbook = true() if key is None else executions.c.playbook_key == key
    may_wait = ~executions.c.reflection_applied | (executions.c.outcome == "failure")
    found = _newest(connection, _HAS_REFLECTION, of_playbook, may_wait)
    return [
        execution
        for execution in found
        if _is_waiting(execution) and (key is None or not asks_for_playbook(execution))
    ]


def asks_for_playbook(execution: Execution) -> bool:
    """Return True if the improvements are for a new playbook."""
    reflection = execution.reflection
    return reflection is not None and bool(reflection.title or execution.playbook_id is None)


def close_reflection(connection: Connection, execution_id: str, *, accepted: bool) -> bool:
    """Mark a waiting reflection as accepted or refused; return False if it does not wait."""
    is_it = executions.c.id == execution_id
    found = _newest(connection, is_it, limit=1)
    if not found or not found[0].reflection or not _is_waiting(found[0]):
        return False
    closed = replace(found[0].reflection, should_update=accepted)
    values = {"reflection": _REFLECTION.dump_python(closed, mode="json")}
    values |= {"reflection_applied": True} if accepted else {}
    connection.execute(update(executions).where(is_it).values(**values))
    return True


def mark_reflections_applied(connection: Connection, key: int) -> None:
    """Mark the waiting reflections of a playbook whose improvements are all lessons by now."""
    waiting = waiting_reflections(connection, key)
    improvements = {e.id: e.reflection.improvements for e in waiting if e.reflection}
    missing = missing_lessons(connection, key, chain.from_iterable(improvements.values()))
    done = [id_ for id_, texts in improvements.items() if missing.isdisjoint(texts)]
    statement = update(executions).where(executions.c.id.in_(done))
    connection.execute(statement.values(reflection_applied=True))


def approve_failures(connection: Connection, key: int, texts: Sequence[str]) -> None:
    """Allow prompts of other runs to hold these of the playbook's `what_failed` texts."""
    if not texts:
        return
    query = select(executions.c.id, executions.c.reflection)
    query = query.where(executions.c.playbook_key == key, _HAS_REFLECTION).with_for_update()
    for id_, stored in connection.execute(query).all():
        reflection = _REFLECTION.validate_python(stored) or Reflection()
        approved = {*reflection.told, *texts}
        told = tuple(text for text in reflection.what_failed if text in approved)
        document = _REFLECTION.dump_python(replace(reflection, told=told), mode="json")
        statement = update(executions).where(executions.c.id == id_)
        connection.execute(statement.values(reflection=document))


def _version_at(connection: Connection, key: int, at: datetime | None) -> int | None:
    """Return a playbook's version at this time, or its present one."""
    if at is not None:
        before = (entry_versions.c.entry_key == key, entry_versions.c.at <= at)
        found = connection.execute(
            select(func.max(entry_versions.c.version)).where(*before)
        ).scalar()
        if found:
            return int(found)
    now = connection.execute(select(entries.c.version).where(entries.c.key == key)).scalar()
    return None if now is None else int(now)


def _check_id(field: str, id_: str, limit: int) -> None:
    if len(id_) > limit or id_ != sanitize_text(id_):
        raise EntryInvalid(
            f"the {field} of an execution has at most {limit} characters, no NUL byte and no "
            f"unpaired surrogate; got {id_[:80]!r}"
        )


def _merge(first: Reflection, second: Reflection) -> Reflection:
    """Return the distinct texts of both; `should_update` is that of the first."""

    def both(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*getattr(first, name), *getattr(second, name))))

    return replace(
        first,
        what_worked=both("what_worked"),
        what_failed=both("what_failed"),
        improvements=both("improvements"),
        told=both("told"),
    )


def _newest(
    connection: Connection, *where: ColumnElement[bool], limit: int | None = None
) -> list[Execution]:
    query = select(executions, entries.c.id.label("playbook_id")).outerjoin(
        entries, entries.c.key == executions.c.playbook_key
    )
    query = query.where(*where).order_by(executions.c.completed_at.desc(), executions.c.id)
    return [_execution(row) for row in connection.execute(query.limit(limit))]


def _is_waiting(execution: Execution) -> bool:
    """Return True if improvements are not applied, or failure texts not approved."""
    reflection = execution.reflection or Reflection()
    has_lessons = bool(reflection.improvements) and not execution.reflection_applied
    unapproved = {*reflection.what_failed} - {*reflection.told}
    is_of_playbook = not asks_for_playbook(execution)
    has_failures = execution.outcome == "failure" and bool(unapproved) and is_of_playbook
    return reflection.should_update and (has_lessons or has_failures)


def _count(connection: Connection, key: int, outcome: Outcome, at: datetime) -> None:
    """Add one to the counter of this outcome, and move `last_used_at` forward."""
    this = entries.c.key == key
    if outcome in _COUNTERS:
        name = _COUNTERS[outcome]
        # In SQL, so that no count of another process is lost.
        connection.execute(update(entries).where(this).values({name: entries.c[name] + 1}))
    # Executions of an import or of a resumed run may be older than the last use.
    is_later = or_(entries.c.last_used_at.is_(None), entries.c.last_used_at < at)
    connection.execute(update(entries).where(this, is_later).values(last_used_at=at))


def _columns(key: int | None, execution: Execution, at: datetime) -> dict[str, object]:
    return {
        "id": execution.id or str(uuid4()),
        "playbook_key": key,
        "playbook_version": execution.playbook_version,
        "run_id": execution.run_id,
        "agent": sanitize_text(execution.agent)[:255],
        "task": _task(execution),
        "outcome": execution.outcome,
        "started_at": execution.started_at,
        "completed_at": execution.completed_at or at,
        "expires_at": execution.expires_at,
        "step_results": [
            {
                **to_json(step),
                "name": sanitize_text(step.name),
                "output": sanitize_text(step.output)[-OUTPUT_LIMIT:],
            }
            for step in execution.step_results
        ],
        "reflection": _REFLECTION.dump_python(execution.reflection, mode="json"),
        "reflection_applied": execution.reflection_applied,
    }


def _task(execution: Execution) -> str:
    return sanitize_text(execution.task)[:OUTPUT_LIMIT]


def _execution(row: "Row[tuple[object, ...]]") -> Execution:
    stored = row._asdict()
    del stored["playbook_key"]
    stored["step_results"] = _STEPS.validate_python(row.step_results)
    stored["reflection"] = _REFLECTION.validate_python(row.reflection)
    return Execution(**stored)
