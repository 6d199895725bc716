"""What happened to playbooks: executions and their counters, each counted exactly once."""

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
    update,
)
from sqlalchemy.exc import IntegrityError

from memory.confidence import RECENT_EXECUTIONS
from memory.content import sanitize_text
from memory.database import lock_until_commit
from memory.errors import PlaybookInvalid
from memory.playbooks import lessons
from memory.playbooks.attribution import completed
from memory.tables import executions, playbooks
from memory.types import Execution, Outcome, OutcomeCounts, Reflection, StepResult

OUTPUT_LIMIT = 4_000
"""Characters kept of what a step said: the last ones, where the errors are."""

_STEPS = TypeAdapter(tuple[StepResult, ...])
_REFLECTION = TypeAdapter(Reflection | None)
_COUNTERS = {"success": "successes", "partial": "partials", "failure": "failures"}
_EXPIRED = and_(executions.c.outcome == "neutral", executions.c.expires_at.is_not(None))
_REFLECTED = cast(executions.c.reflection, Text) != "null"
_OPEN = or_(executions.c.outcome == "pending", _EXPIRED)


def record_execution(
    connection: Connection, key: int | None, execution: Execution, at: datetime
) -> bool:
    """Keep an execution and count it; False when it was kept before, and nothing is counted."""
    new = import_execution(connection, key, completed(connection, key, execution), at)
    if new and key is not None:
        _count(connection, key, execution.outcome, execution.completed_at or at)
    return new


def import_execution(
    connection: Connection, key: int | None, execution: Execution, at: datetime
) -> bool:
    """Keep an execution that is counted already, or is not to be; False when it is there.

    Raises:
        PlaybookInvalid: its id or its run's has a NUL byte or too many characters.
    """
    _check_name("id", execution.id, 36)
    _check_name("run_id", execution.run_id or "", 64)
    if execution.run_id is not None and key is None:  # no constraint holds what has no key
        lock_until_commit(connection, f"run {execution.run_id}")
    if execution.run_id is not None and _known(connection, key, execution.run_id):
        return False
    try:
        with connection.begin_nested():
            connection.execute(insert(executions).values(**_columns(key, execution, at)))
    except IntegrityError:
        return False
    return True


def delete_neutral(connection: Connection, run_id: str) -> None:
    """Forget a run's neutral executions, which count for nothing."""
    of_run = (executions.c.run_id == run_id, executions.c.outcome == "neutral")
    connection.execute(delete(executions).where(*of_run))


def settle_execution(
    connection: Connection, execution_id: str, outcome: Outcome, at: datetime
) -> bool:
    """Give an execution that waits, or waited in vain, its verdict; False when it has one."""
    changed = connection.execute(
        update(executions)
        .where(executions.c.id == execution_id, _OPEN)
        .values(outcome=outcome, expires_at=None)
        .returning(executions.c.playbook_key)
    ).first()
    if changed is not None and changed.playbook_key is not None:
        _count(connection, changed.playbook_key, outcome, at)
    return changed is not None


def expire_pending(connection: Connection, at: datetime) -> int:
    """Pending executions whose time is over end as neutral, which counts for nothing.

    They keep the moment, which tells them from those that somebody called neutral.
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
    """Executions of one playbook, or all, the newest first; with `outcome` those that ended so."""
    ended = () if outcome is None else (executions.c.outcome == outcome,)
    return _newest(connection, *_of(key), *ended, limit=limit)


def recent_counts(connection: Connection, keys: Collection[int]) -> dict[int, OutcomeCounts]:
    """Outcomes of the `RECENT` latest executions of each of these playbooks that counted."""
    place = func.row_number().over(
        partition_by=executions.c.playbook_key,
        order_by=(executions.c.completed_at.desc(), executions.c.id),
    )
    counted = (executions.c.playbook_key.in_(keys), executions.c.outcome.in_(_COUNTERS))
    latest = select(executions.c.playbook_key, executions.c.outcome, place.label("place"))
    found = latest.where(*counted).subquery()
    query = (
        select(found.c.playbook_key, found.c.outcome, func.count())
        .where(found.c.place <= RECENT_EXECUTIONS)
        .group_by(found.c.playbook_key, found.c.outcome)
    )
    counts: dict[int, dict[str, int]] = {}
    for key, outcome, number in connection.execute(query) if keys else ():
        counts.setdefault(key, {})[_COUNTERS[outcome]] = number
    return {key: OutcomeCounts(**numbers) for key, numbers in counts.items()}


def execution_of_run(connection: Connection, key: int | None, run_id: str) -> Execution | None:
    """What a run recorded of the playbook with this key, or of itself when it followed none."""
    found = _newest(connection, executions.c.run_id == run_id, _of_key(key))
    return found[0] if found else None


def annotate_execution(connection: Connection, execution_id: str, said: Execution) -> None:
    """Put somebody's task in place of the execution's, and what they say beside what was said."""
    mine = executions.c.id == execution_id
    values: dict[str, object] = {"task": _task(said)} if said.task else {}
    if said.reflection is not None:
        query = select(executions.c.reflection).where(mine).with_for_update()
        before = _REFLECTION.validate_python(connection.execute(query).scalar_one())
        both = _both(before, said.reflection) if before else said.reflection
        values["reflection"] = _REFLECTION.dump_python(both, mode="json")
    if values:
        connection.execute(update(executions).where(mine).values(**values))


def mark_reflections_applied(connection: Connection, key: int) -> None:
    """Note which reflections on a playbook wait no more: those whose improvements it all has."""
    waiting = waiting_reflections(connection, key)
    said = {one.id: one.reflection.improvements for one in waiting if one.reflection}
    missing = lessons.missing_lessons(connection, key, chain.from_iterable(said.values()))
    done = [id_ for id_, improvements in said.items() if missing.isdisjoint(improvements)]
    mine = executions.c.id.in_(done)
    connection.execute(update(executions).where(mine).values(reflection_applied=True))


def waiting_reflections(connection: Connection, key: int | None = None) -> list[Execution]:
    """Executions whose reflection is to be applied and was not yet, the newest first.

    Of the playbook with this key, or of all.
    """
    mine = (~executions.c.reflection_applied | (executions.c.outcome == "failure"), *_of(key))
    return [e for e in _newest(connection, _REFLECTED, *mine) if e.playbook_id and _waits(e)]


def approve_failures(connection: Connection, key: int, texts: Sequence[str]) -> None:
    """Other runs may be told these of what failed with a playbook: a person said or read them."""
    query = select(executions.c.id, executions.c.reflection)
    mine = (executions.c.playbook_key == key, _REFLECTED)
    rows = connection.execute(query.where(*mine).with_for_update()).all() if texts else ()
    for id_, kept in rows:
        said = _REFLECTION.validate_python(kept) or Reflection()
        told = tuple(text for text in said.what_failed if text in (*said.told, *texts))
        values = {"reflection": _REFLECTION.dump_python(replace(said, told=told), mode="json")}
        connection.execute(update(executions).where(executions.c.id == id_).values(**values))


def _check_name(place: str, name: str, limit: int) -> None:
    if len(name) > limit or name != sanitize_text(name):
        raise PlaybookInvalid(
            f"the {place} of an execution has at most {limit} characters, no NUL byte and no half "
            f"a character; got {name[:80]!r}"
        )


def _of(key: int | None) -> tuple[ColumnElement[bool], ...]:
    return () if key is None else (executions.c.playbook_key == key,)


def _of_key(key: int | None) -> ColumnElement[bool]:
    return executions.c.playbook_key.is_(None) if key is None else executions.c.playbook_key == key


def _both(first: Reflection, second: Reflection) -> Reflection:
    """What both say, each once; whether it is to be applied, the first says."""

    def each(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*getattr(first, name), *getattr(second, name))))

    return Reflection(
        what_worked=each("what_worked"),
        what_failed=each("what_failed"),
        improvements=each("improvements"),
        should_update=first.should_update,
        told=each("told"),
    )


def _newest(
    connection: Connection, *where: ColumnElement[bool], limit: int | None = None
) -> list[Execution]:
    query = select(executions, playbooks.c.id.label("playbook_id")).outerjoin(
        playbooks, playbooks.c.key == executions.c.playbook_key
    )
    query = query.where(*where).order_by(executions.c.completed_at.desc(), executions.c.id)
    return [_execution(row) for row in connection.execute(query.limit(limit))]


def _waits(execution: Execution) -> bool:
    """Whether it has lessons that were not applied, or says what failed and nobody read it."""
    said = execution.reflection or Reflection()
    teaches = bool(said.improvements) and not execution.reflection_applied
    tells = execution.outcome == "failure" and not {*said.what_failed} <= {*said.told}
    return said.should_update and (teaches or tells)


def _known(connection: Connection, key: int | None, run_id: str) -> bool:
    query = select(executions.c.id).where(executions.c.run_id == run_id, _of_key(key))
    return connection.execute(query).first() is not None


def _count(connection: Connection, key: int, outcome: Outcome, at: datetime) -> None:
    """One SQL statement, so that no other process's count is lost."""
    values: dict[str, object] = {}
    if outcome in _COUNTERS:
        name = _COUNTERS[outcome]
        values[name] = playbooks.c[name] + 1
    newer = or_(playbooks.c.last_used_at.is_(None), playbooks.c.last_used_at < at)
    if values:
        connection.execute(update(playbooks).where(playbooks.c.key == key).values(**values))
    connection.execute(
        update(playbooks).where(playbooks.c.key == key, newer).values(last_used_at=at)
    )


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
        "step_results": [_step(step) for step in execution.step_results],
        "reflection": _REFLECTION.dump_python(execution.reflection, mode="json"),
        "reflection_applied": execution.reflection_applied,
    }


def _task(execution: Execution) -> str:
    return sanitize_text(execution.task)[:OUTPUT_LIMIT]


def _step(step: StepResult) -> dict[str, object]:
    return {
        "name": sanitize_text(step.name),
        "outcome": step.outcome,
        "output": sanitize_text(step.output)[-OUTPUT_LIMIT:],
        "duration_ms": step.duration_ms,
    }


def _execution(row: "Row[tuple[object, ...]]") -> Execution:
    return Execution(
        id=row.id,
        playbook_id=row.playbook_id,
        playbook_version=row.playbook_version,
        run_id=row.run_id,
        agent=row.agent,
        task=row.task,
        outcome=row.outcome,
        started_at=row.started_at,
        completed_at=row.completed_at,
        expires_at=row.expires_at,
        step_results=_STEPS.validate_python(row.step_results),
        reflection=_REFLECTION.validate_python(row.reflection),
        reflection_applied=row.reflection_applied,
    )
