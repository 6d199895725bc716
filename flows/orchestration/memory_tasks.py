"""Memory around a run as Prefect tasks, each with an artifact."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from re import sub
from typing import TYPE_CHECKING

from prefect import task
from prefect.cache_policies import NO_CACHE

from contracts.run import RunReport
from flows.config.settings import load_settings
from flows.orchestration.artifacts import attach_markdown
from flows.recall.notes import NodeRequest, PromptBlock, RunNotes
from flows.recall.playbooks import MemoryUnavailable, RunMemory
from flows.runs.report import inert_line as plain_text
from flows.runs.report import page_link
from flows.services.daemons import pages_url
from memory.types import RecallResult, RecordedRun, SearchResult

if TYPE_CHECKING:
    from memory.curation.curate import CurationResult


def memory_tasks(plain: RunMemory) -> RunMemory:
    """Wrap each call of `memory` in a task run with an artifact."""

    def surface(run_id: str, task: str) -> RecallResult:
        return _surface_task(plain, run_id, task)

    def record(report: RunReport, verdict_later: bool) -> RecordedRun | MemoryUnavailable | None:
        return _record_task(plain, report, verdict_later)

    return replace(plain, surface=surface, record=record)


@contextmanager
def note_tasks(
    open_plain: Callable[[], AbstractContextManager[RunNotes]],
) -> Iterator[RunNotes]:
    """Wrap the notes of a run: each answer also becomes an artifact of the current task run."""
    with open_plain() as plain:

        def give(seat: NodeRequest) -> PromptBlock:
            given = plain.inject(seat)
            if given.explanation:
                name = sub(r"[^a-z0-9]+", "-", seat.node.lower()).strip("-")
                attach_markdown(
                    given.explanation,
                    key=f"notes-{seat.run_id}-{name}",
                    description=f"Notes and examples given to {seat.node}, and why",
                )
            return given

        yield replace(plain, inject=give, curate=lambda run_id: _learn_task(plain, run_id))


@task(
    name="curate run",
    task_run_name="curate run",
    cache_policy=NO_CACHE,
    persist_result=False,
)
def _learn_task(plain: RunNotes, run_id: str) -> "CurationResult | None":
    curated = plain.curate(run_id)
    if curated is not None:
        publish_curation(curated)
    return curated


@task(
    name="surface playbooks",
    task_run_name="surface playbooks",
    cache_policy=NO_CACHE,
    persist_result=False,
)
def _surface_task(plain: RunMemory, run_id: str, task: str) -> RecallResult:
    shown = plain.surface(run_id, task)
    attach_markdown(
        recall_markdown(shown, pages_url(load_settings())),
        key=f"playbooks-{run_id}",
        description="Playbooks shown, and why",
    )
    return shown


@task(
    name="record execution",
    task_run_name="record execution",
    cache_policy=NO_CACHE,
    persist_result=False,
)
def _record_task(
    plain: RunMemory, report: RunReport, verdict_later: bool
) -> RecordedRun | MemoryUnavailable | None:
    recorded = plain.record(report, verdict_later)
    if recorded is not None:
        attach_markdown(
            _recorded(recorded), key=f"execution-{report.run_id}", description="What was recorded"
        )
    return recorded


def publish_curation(curated: "CurationResult") -> None:
    """Attach what was learned from a run to the current flow run or task run."""
    attach_markdown(
        curation_markdown(curated),
        key=f"curated-{curated.run_id}",
        description="What the run taught",
    )


def curation_markdown(curated: "CurationResult") -> str:
    """Return what was learned from a run, as Markdown."""
    if curated.error:
        return plain_text(curated.error)
    kept = [
        f"- {entry.status}: `{entry.id}` {plain_text(entry.author.kind)}, {entry.confidence} of 100"
        for entry in curated.written
    ]
    same = [f"- known already: `{entry_id}`" for entry_id in curated.merged]
    refused = [f"- refused: {plain_text(r.words[:200])}: {r.why}" for r in curated.refused]
    return "\n".join([*kept, *same, *refused]) or "The run taught nothing."


def recall_markdown(shown: RecallResult, site: str | None = None) -> str:
    """Return which playbooks a run was shown and why, as Markdown; `site` is the address of the
    pages."""
    if shown.held_out:
        why = "This run was drawn to be shown no playbook, so that the lift can be measured."
    else:
        why = f"{len(shown.shown)} of {len(shown.results.hits)} found were shown."
    rows = [_row(hit, hit.playbook.id in shown.shown, site) for hit in shown.results.hits]
    head = ["| playbook | shown | score | confidence | found by |", "|---|---|---|---|---|"]
    table = [*head, *rows] if rows else ["Nothing in memory fits this task."]
    return "\n".join([why, "", *table])


def _row(hit: SearchResult, shown: bool, site: str | None) -> str:
    places = [f"{arm} #{at.rank} ({at.score:.3f})" for arm, at in hit.arm_ranks.items()]
    name = page_link(hit.playbook.slug, site, "playbook", hit.playbook.id)
    known = f"{hit.score:.3f} | {hit.playbook.confidence:.0%}"
    return f"| {name} | {'yes' if shown else 'no'} | {known} | {', '.join(places)} |"


def _recorded(recorded: RecordedRun | MemoryUnavailable) -> str:
    if isinstance(recorded, MemoryUnavailable):
        return f"Not recorded yet, will be retried: {plain_text(recorded.reason)}"
    credited = ", ".join(recorded.playbooks) or "no playbook"
    lines = [f"Outcome {recorded.outcome}, credited to {credited}."]
    if recorded.reflection and recorded.reflection.improvements:
        lines += ["", "Lessons that wait for a person (`harness memory reflect`):", ""]
        lines += [f"- {plain_text(lesson)}" for lesson in recorded.reflection.improvements]
    return "\n".join(lines)
