"""After a run: who gets the credit, what is kept, and what a model makes of it."""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from pydantic import BaseModel
from sqlalchemy import Connection

from contracts.chat import ChatRequest, Complete, Message
from contracts.run import NodeReport, NodeStatus, RunReport
from memory.around_run import RecordedRun
from memory.database import read_transaction, write_transaction
from memory.playbooks import journal, recall, store
from memory.playbooks.lessons import MAX_LESSONS_PER_RUN
from memory.playbooks.library import Library
from memory.templates import render_template
from memory.types import Execution, Outcome, Reflection, StepResult

FEEDBACK_TIMEOUT = timedelta(hours=24)
"""How long a verdict may take before it counts as neutral."""

_OUTCOMES: dict[NodeStatus, Outcome] = {
    "success": "success",
    "failure": "failure",
    "skipped": "neutral",
}
REFLECTION_MAX_TOKENS = 2_000
REFLECTION_TIMEOUT_S = 120.0

_SAID = 1_500
_ASKED = 4_000
_NODES = 20


def record_run(
    library: Library,
    report: RunReport,
    *,
    verdict_later: bool = False,
    reflection: Reflection | None = None,
) -> RecordedRun:
    """Record a run that has ended, however it ended; doing it twice counts once.

    Credit goes to the playbooks that its agents named, else to those they read, else to the best
    one they were shown, of whatever group; the best one is given the reflection. A run without
    any, or in which no agent worked, is recorded too. No playbook is ever made here. A run that
    stopped, was recorded as neutral and went on is recorded anew. A verdict that it has stands.
    """
    with write_transaction(library.engine) as connection:
        journal.delete_neutral(connection, report.run_id)
    ended = outcome_of(report)
    outcome = "pending" if verdict_later and ended == "success" else ended
    credited = _credit(library, report)
    for place, playbook_id in enumerate(credited or (None,)):
        library.record_execution(
            Execution(
                playbook_id=playbook_id,
                run_id=report.run_id,
                agent=report.agent,
                task=report.intent,
                outcome=outcome,
                started_at=datetime.fromisoformat(report.started_at) if report.started_at else None,
                expires_at=library.clock() + FEEDBACK_TIMEOUT if outcome == "pending" else None,
                step_results=tuple(_step(node) for node in report.nodes),
                reflection=None if place else reflection,
            )
        )
    with write_transaction(library.engine) as connection:
        stands = _outcome(connection, report.run_id, credited) or outcome
        recall.set_outcome(connection, report.run_id, stands)
    return RecordedRun(
        outcome=stands,
        playbooks=credited,
        reflection=reflection,
    )


def outcome_of(report: RunReport) -> Outcome:
    """The run's outcome for its playbooks: what no agent worked on is not their doing.

    Nor is an outage, a cancel, what a person refused, or a node that raised an exception.
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
    """Whether there is anything to reflect on: a playbook that was followed, and where to."""
    return outcome_of(report) != "neutral" and bool(_credit(library, report))


def reflect(complete: Complete, model: str, report: RunReport) -> Reflection | None:
    """What a model makes of a run; None when it answers with something else than was asked.

    What it reads and what it may write are bounded, and so is what it costs.

    Raises:
        ModelUnavailable: it does not answer.
    """
    said = Message(role="user", content=_prompt(report))
    request = ChatRequest(
        model=model,
        messages=[said],
        max_tokens=REFLECTION_MAX_TOKENS,
        timeout_s=REFLECTION_TIMEOUT_S,
    )
    return parse_reflection(complete(request).message.content)


def parse_reflection(text: str) -> Reflection | None:
    """The first JSON object of a reply as a reflection, cut to three lessons."""
    start, end = text.find("{"), text.rfind("}")
    try:
        said = _Said.model_validate(json.loads(text[start : end + 1]))
    except (ValueError, RecursionError):  # also of a number too long, or nested too deeply
        return None
    return Reflection(
        what_worked=_few(said.what_worked),
        what_failed=_few(said.what_failed),
        improvements=_few(said.improvements),
    )


class _Said(BaseModel, frozen=True, extra="ignore"):
    what_worked: list[str] = []
    what_failed: list[str] = []
    improvements: list[str] = []


def _few(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(" ".join(text.split())[:500] for text in texts if text.strip())[
        :MAX_LESSONS_PER_RUN
    ]


def _prompt(report: RunReport) -> str:
    nodes = [
        {"name": n.name, "status": n.status, "said": (n.error or n.output)[-_SAID:]}
        for n in report.nodes[-_NODES:]
    ]
    return render_template(
        "reflect.md.j2",
        blueprint=report.blueprint,
        status=report.status,
        task=report.intent[:_ASKED],
        nodes=nodes,
    )


def _agents_worked(report: RunReport) -> bool:
    return any(node.type == "agentic" and node.status != "skipped" for node in report.nodes)


def _credit(library: Library, report: RunReport) -> tuple[str, ...]:
    """The ids of the playbooks that are credited, the best of the search first."""
    if not _agents_worked(report):
        return ()
    with read_transaction(library.engine) as connection:
        known = recall.playbooks_known_to(connection, report.run_id)
        there = store.by_id(connection, [one.playbook_id for one in known])
    kept = [one for one in known if one.playbook_id in there]
    said = "\n".join(_agents_said(report))
    slugs = {id_: f"[playbook:{playbook.slug}]" for id_, playbook in there.items()}
    ids = [one.playbook_id for one in kept]
    named = [id_ for id_ in ids if slugs[id_] in said or id_ in said]
    with write_transaction(library.engine) as connection:
        recall.mark_cited(connection, report.run_id, named)
    read = [one.playbook_id for one in kept if one.cited]
    shown = [one.playbook_id for one in kept if one.shown]
    return tuple(named or read or shown[:1])


def _agents_said(report: RunReport) -> Iterator[str]:
    """What agents said as they ended, in every round; what commands print is not theirs."""
    for node in report.nodes:
        if node.type == "agentic":
            yield node.output
        yield from (attempt.fix.output for attempt in node.attempts if attempt.fix)


def _outcome(connection: Connection, run_id: str, credited: Sequence[str]) -> Outcome | None:
    """What is kept of how the run ended; a verdict on one playbook is one on the run."""
    found = store.by_id(connection, credited)
    keys: list[int | None] = [found[id_].key for id_ in credited if id_ in found]
    kept = [journal.execution_of_run(connection, key, run_id) for key in keys or [None]]
    outcomes = [execution.outcome for execution in kept if execution]
    judged = [outcome for outcome in outcomes if outcome not in ("pending", "neutral")]
    return next(iter(judged or outcomes), None)


def _step(node: NodeReport) -> StepResult:
    return StepResult(
        name=node.name,
        outcome=_OUTCOMES[node.status],
        output=node.error or node.output,
        duration_ms=node.duration_ms,
    )
