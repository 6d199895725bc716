"""Recording a finished run: its outcome, the playbooks it is credited to, and a reflection."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel
from sqlalchemy import Connection

from contracts.chat import ChatRequest, Complete, Message
from contracts.run import NodeReport, NodeStatus, RunReport
from memory.content import TITLE_LIMIT
from memory.database import read_transaction, write_transaction
from memory.playbooks import executions, recall, store
from memory.playbooks.library import Library
from memory.playbooks.write import MAX_LESSONS_PER_RUN, AddedLessons, add_lessons
from memory.types import Execution, Outcome, Playbook, RecordedRun, Reflection, StepResult

FEEDBACK_TIMEOUT = timedelta(hours=24)
"""How long an execution waits for a person's feedback before it becomes neutral."""

REFLECTION_MAX_TOKENS = 2_000
REFLECTION_TIMEOUT_S = 120.0

_NODE_OUTPUT_LIMIT = 1_500
_TASK_LIMIT = 4_000
_MAX_NODES = 20
_OUTCOMES: dict[NodeStatus, Outcome] = {
    "success": "success",
    "failure": "failure",
    "skipped": "neutral",
}


def record_run(
    library: Library,
    report: RunReport,
    *,
    verdict_later: bool = False,
    reflection: Reflection | None = None,
) -> RecordedRun:
    """Record a finished run. A second call counts nothing twice.

    Credit goes to the playbooks that the agents named, else to those they read, else to the best
    one they were shown. The best of these gets the reflection. A run without any is recorded too.
    A run that was recorded as neutral and resumed is recorded again; an outcome that a person gave
    stays.
    """
    with write_transaction(library.engine) as connection:
        # A run that was cancelled and resumed gets its real outcome.
        executions.delete_neutral(connection, report.run_id)
    outcome = outcome_of(report)
    if verdict_later and outcome == "success":
        outcome = "pending"
    credited = _credited_playbooks(library, report)
    for number, playbook_id in enumerate(credited or (None,)):
        library.record_execution(
            Execution(
                playbook_id=playbook_id,
                run_id=report.run_id,
                agent=report.agent,
                task=report.intent,
                outcome=outcome,
                started_at=datetime.fromisoformat(report.started_at) if report.started_at else None,
                expires_at=library.clock() + FEEDBACK_TIMEOUT if outcome == "pending" else None,
                step_results=tuple(_step_result(node) for node in report.nodes),
                reflection=reflection if number == 0 else None,
            )
        )
    with write_transaction(library.engine) as connection:
        stored = _stored_outcome(connection, report.run_id, credited) or outcome
        recall.set_outcome(connection, report.run_id, stored)
    return RecordedRun(outcome=stored, playbooks=credited, reflection=reflection)


def outcome_of(report: RunReport) -> Outcome:
    """Return the outcome that a run's playbooks are credited with.

    It is neutral where playbooks had no part: no agent worked, the run was cancelled, an outage
    or a refusal ended it, or a node raised an exception.
    """
    if not _agents_worked(report):
        return "neutral"
    match report.status:
        case "success":
            return "success"
        case "failure" if report.failed_node and not any(node.raised for node in report.nodes):
            return "failure"
        case _:
            return "neutral"


def can_reflect(library: Library, report: RunReport) -> bool:
    """Return True if the run has an outcome that playbooks can learn from, good or bad."""
    with read_transaction(library.engine) as connection:
        held_out = recall.was_held_out(connection, report.run_id)
    return outcome_of(report) != "neutral" and not held_out


def credited_playbook(library: Library, report: RunReport) -> Playbook | None:
    """Return the playbook that the run's reflection is stored with, if there is one."""
    credited = _credited_playbooks(library, report)
    with read_transaction(library.engine) as connection:
        return store.by_id(connection, credited[:1]).get(credited[0]) if credited else None


def reflect(
    complete: Complete, model: str, report: RunReport, playbook: Playbook | None = None
) -> Reflection | None:
    """Ask a model what a run teaches; return None if its answer has another form.

    `playbook` is the one that the run is credited to. If the model finds that it is about other
    work, or without one, the reflection has a title for a new playbook. Prompt and answer are
    bounded in size, which bounds the cost.

    Raises:
        ModelUnavailable: the model does not answer.
    """
    request = ChatRequest(
        model=model,
        messages=[Message(role="user", content=_prompt(report, playbook))],
        max_tokens=REFLECTION_MAX_TOKENS,
        timeout_s=REFLECTION_TIMEOUT_S,
    )
    found = parse_reflection(complete(request).message.content)
    if found is None or playbook is not None or found.title:
        return found
    return replace(found, title=" ".join(report.intent.split())[:TITLE_LIMIT])


class _Answer(BaseModel, frozen=True, extra="ignore"):
    what_worked: list[str] = []
    what_failed: list[str] = []
    improvements: list[str] = []
    new_playbook: str = ""


def parse_reflection(text: str) -> Reflection | None:
    """Return the first JSON object of a model's answer as a reflection, or None."""
    # Models wrap JSON in Markdown fences and sentences.
    start, end = text.find("{"), text.rfind("}")
    try:
        answer = _Answer.model_validate(json.loads(text[start : end + 1]))
    except (ValueError, RecursionError):  # RecursionError: nested too deeply
        return None
    return Reflection(
        what_worked=_shorten(answer.what_worked),
        what_failed=_shorten(answer.what_failed),
        improvements=_shorten(answer.improvements),
        title=" ".join(answer.new_playbook.split())[:TITLE_LIMIT],
    )


def render_template(template: str, **values: object) -> str:
    """Return a prompt of `memory/*.md.j2`; template code inside a value is not executed."""
    # Imported here: few runs ask a model, and every run imports this module.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parents[1]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - a prompt is plain text
    )
    return environment.get_template(template).render(**values)


class FeedbackResult(NamedTuple):
    """Result of a person's feedback on a playbook."""

    counted: bool
    """False if the run had an outcome for this playbook already."""
    outcome: Outcome
    """The outcome that is stored."""
    lessons: AddedLessons
    held_out: bool = False
    """True if the run was shown no playbook, so that the feedback is about the run alone."""


def record_feedback(library: Library, ref: str, feedback: Execution) -> FeedbackResult:
    """Count a person's feedback on a playbook, in one transaction.

    An execution of the run that is pending or expired gets this outcome; one of another playbook
    stays. For a held-out run, the record of the run itself gets it. Task and reflection are stored
    in any case, and the improvements become lessons.

    Raises:
        EntryNotFound: there is no such playbook; nothing was changed.
    """
    run_id, at = feedback.run_id, library.clock()
    reflection = feedback.reflection or Reflection()
    with write_transaction(library.engine) as connection:
        key = store.get(connection, ref).key
        held_out = run_id is not None and recall.was_held_out(connection, run_id)
        used = None if held_out else key
        known = executions.execution_of_run(connection, used, run_id) if run_id else None
        if known is None:
            counted = executions.record_execution(connection, used, feedback, at)
        else:
            counted = executions.settle_execution(connection, known.id, feedback.outcome, at)
            executions.annotate_execution(connection, known.id, feedback)
        if run_id:
            own = executions.execution_of_run(connection, None, run_id)
            settled = own is not None and executions.settle_execution(
                connection, own.id, feedback.outcome, at
            )
            if settled or (counted and known):
                recall.set_outcome(connection, run_id, feedback.outcome)
        executions.approve_failures(connection, key, reflection.what_failed)
        lessons = add_lessons(connection, key, reflection.improvements, run_id=run_id, at=at)
        executions.mark_reflections_applied(connection, key)
    outcome = feedback.outcome if counted or known is None else known.outcome
    return FeedbackResult(counted, outcome, lessons, held_out)


def _shorten(texts: Iterable[str]) -> tuple[str, ...]:
    lines = (" ".join(text.split())[:500] for text in texts if text.strip())
    return tuple(lines)[:MAX_LESSONS_PER_RUN]


def _prompt(report: RunReport, playbook: Playbook | None) -> str:
    nodes = [
        {"name": n.name, "status": n.status, "said": (n.error or n.output)[-_NODE_OUTPUT_LIMIT:]}
        for n in report.nodes[-_MAX_NODES:]
    ]
    return render_template(
        "reflect.md.j2",
        blueprint=report.blueprint,
        status=report.status,
        task=report.intent[:_TASK_LIMIT],
        nodes=nodes,
        playbook=playbook,
    )


def _agents_worked(report: RunReport) -> bool:
    return any(node.type == "agentic" and node.status != "skipped" for node in report.nodes)


def _credited_playbooks(library: Library, report: RunReport) -> tuple[str, ...]:
    """Return the ids of the playbooks that the run is credited to, best search result first."""
    if not _agents_worked(report):
        return ()
    with read_transaction(library.engine) as connection:
        recalled = recall.playbooks_known_to(connection, report.run_id)
        stored = store.by_id(connection, [one.playbook_id for one in recalled])
    known = [one for one in recalled if one.playbook_id in stored]
    answers = "\n".join(_agent_answers(report))
    named = [
        one.playbook_id
        for one in known
        if f"[playbook:{stored[one.playbook_id].slug}]" in answers or one.playbook_id in answers
    ]
    with write_transaction(library.engine) as connection:
        recall.mark_cited(connection, report.run_id, named)
    read = [one.playbook_id for one in known if one.cited]
    shown = [one.playbook_id for one in known if one.shown]
    return tuple(named or read or shown[:1])


def _agent_answers(report: RunReport) -> Iterator[str]:
    """Yield the final answers of agents, also in fixes; output of commands is not theirs."""
    for node in report.nodes:
        if node.type == "agentic":
            yield node.output
        yield from (attempt.fix.output for attempt in node.attempts if attempt.fix)


def _stored_outcome(connection: Connection, run_id: str, credited: Sequence[str]) -> Outcome | None:
    """Return the stored outcome of a run; feedback on one of its playbooks goes first."""
    found = store.by_id(connection, credited)
    keys: list[int | None] = [found[id_].key for id_ in credited if id_ in found]
    stored = [executions.execution_of_run(connection, key, run_id) for key in keys or [None]]
    outcomes = [execution.outcome for execution in stored if execution]
    decided = [outcome for outcome in outcomes if outcome not in ("pending", "neutral")]
    return next(iter(decided or outcomes), None)


def _step_result(node: NodeReport) -> StepResult:
    return StepResult(
        name=node.name,
        outcome=_OUTCOMES[node.status],
        output=node.error or node.output,
        duration_ms=node.duration_ms,
    )
