"""After a run: who gets the credit, what is kept, and what a model makes of it."""

import json
from collections.abc import Iterable
from datetime import timedelta

from pydantic import BaseModel

from contracts.chat import ChatRequest, Complete, Message
from contracts.run import NodeReport, NodeStatus, RunReport
from memory import journal, recall, store
from memory.around_run import Recorded
from memory.database import reading, writing
from memory.lessons import LESSONS_A_RUN
from memory.library import Library
from memory.templates import filled_in
from memory.types import Execution, Outcome, Reflection, StepResult

PENDING_FOR = timedelta(hours=24)
"""How long a verdict may take before it counts as neutral."""

_OUTCOMES: dict[NodeStatus, Outcome] = {
    "success": "success",
    "failure": "failure",
    "skipped": "neutral",
}
ANSWER_TOKENS = 2_000
ANSWER_S = 120.0

_SAID = 1_500
_ASKED = 4_000
_NODES = 20


def record(
    library: Library,
    report: RunReport,
    *,
    verdict_later: bool = False,
    reflection: Reflection | None = None,
) -> Recorded:
    """Record a run that has ended, however it ended; doing it twice counts once.

    Credit goes to the playbooks that the agent named, else to those it read, else to the best one
    it was shown and not told to avoid. A run without any is recorded too. No playbook is ever made
    here. A run that stopped, was recorded as neutral and went on is recorded anew.
    """
    with writing(library.engine) as connection:
        journal.withdraw_neutral(connection, report.run_id)
    outcome = "pending" if verdict_later and report.status == "success" else outcome_of(report)
    credited = _credit(library, report)
    before = _lessons(library, credited)
    for playbook_id in credited or (None,):
        library.record_execution(
            Execution(
                playbook_id=playbook_id,
                run_id=report.run_id,
                agent=report.agent,
                task=report.intent,
                outcome=outcome,
                expires_at=library.clock() + PENDING_FOR if outcome == "pending" else None,
                step_results=tuple(_step(node) for node in report.nodes),
                reflection=reflection,
            )
        )
    with writing(library.engine) as connection:
        recall.close(connection, report.run_id, outcome)
    return Recorded(
        outcome=outcome,
        playbooks=credited,
        lessons=tuple(text for text in _lessons(library, credited) if text not in before),
        reflection=reflection,
    )


def outcome_of(report: RunReport) -> Outcome:
    """The run's outcome for its playbooks: an outage or a cancel is not their doing."""
    match report.status:
        case "success":
            return "success"
        case "failure" if any(node.status == "failure" for node in report.nodes):
            return "failure"
        case _:
            return "neutral"


def can_teach(library: Library, report: RunReport) -> bool:
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
        model=model, messages=[said], max_tokens=ANSWER_TOKENS, timeout_s=ANSWER_S
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
    return tuple(" ".join(text.split())[:500] for text in texts if text.strip())[:LESSONS_A_RUN]


def _prompt(report: RunReport) -> str:
    nodes = [
        {"name": n.name, "status": n.status, "said": (n.error or n.output)[-_SAID:]}
        for n in report.nodes[-_NODES:]
    ]
    return filled_in(
        "reflect.md.j2",
        blueprint=report.blueprint,
        status=report.status,
        task=report.intent[:_ASKED],
        nodes=nodes,
    )


def _credit(library: Library, report: RunReport) -> tuple[str, ...]:
    with reading(library.engine) as connection:
        known = recall.known_to(connection, report.run_id)
        there = store.by_id(connection, [one.playbook_id for one in known])
    said = "\n".join(node.output for node in report.nodes)
    named = {id_ for id_, p in there.items() if f"[playbook:{p.slug}]" in said or id_ in said}
    with writing(library.engine) as connection:
        recall.cite(connection, report.run_id, named)
    kept = [one for one in known if one.playbook_id in there]
    read = {one.playbook_id for one in kept if one.cited}
    shown = [one.playbook_id for one in kept if one.shown and one.group != "failed"]
    return tuple(sorted(named)) or tuple(sorted(read)) or tuple(shown[:1])


def _lessons(library: Library, refs: Iterable[str]) -> list[str]:
    return [lesson.text for ref in refs for lesson in library.get(ref).lessons]


def _step(node: NodeReport) -> StepResult:
    return StepResult(
        name=node.name,
        outcome=_OUTCOMES[node.status],
        output=node.error or node.output,
        duration_ms=node.duration_ms,
    )
