"""What other runs are told of a playbook's failures, and whose words it is."""

from typing import NamedTuple

from sqlalchemy import Connection

from memory.playbooks.journal import list_executions

MAX_FAILURES_SHOWN = 5
"""Failures that a playbook's rendering may name."""


class FailureTexts(NamedTuple):
    """What the latest failures of a playbook say."""

    texts: tuple[str, ...]
    includes_run_text: bool
    """Whether any of it is in a run's words."""


def failure_texts(connection: Connection, key: int) -> FailureTexts:
    """What a person said or let through, then the steps that failed; each once.

    Of a step its name alone: what it printed may be another's, or meant to mislead.
    """
    latest = list_executions(connection, key, outcome="failure", limit=MAX_FAILURES_SHOWN)
    reflections = [(e.reflection, e.run_id is not None) for e in latest if e.reflection]
    told = [(text, by_run) for said, by_run in reflections for text in said.told]
    steps = [step for execution in latest for step in execution.step_results]
    told += [(f"{step.name}: failure", False) for step in steps if step.outcome == "failure"]
    kept = tuple(dict.fromkeys(text for text, _ in told))[:MAX_FAILURES_SHOWN]
    return FailureTexts(
        kept, includes_run_text=any(by_run for text, by_run in told if text in kept)
    )
