"""Nodes and memory as Prefect task runs, with their log lines and artifacts."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from dataclasses import replace
from logging import LogRecord, getLogger
from re import sub
from typing import TYPE_CHECKING, TypedDict

from prefect import State, allow_failure, get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE, CachePolicy
from prefect.exceptions import MissingContextError
from prefect.states import Completed, Failed

from blueprints.engine import RunListener, WrapNode
from contracts.run import NodeResult, RunReport
from flows.config.settings import load_settings
from flows.recall.notes import NodeRequest, PromptBlock, RunNotes
from flows.recall.playbooks import MemoryUnavailable, RunMemory
from flows.runs.report import (
    inert_line,
    page_link,
    report_markdown,
    surfaced_markdown,
    table_rows,
)
from flows.services.daemons import pages_url
from flows.services.server_outage import ignore_outage
from flows.views.markdown import view_markdown
from flows.views.spec import ViewSpec
from memory.types import RecallResult, RecordedRun, SearchResult
from nodes.types import Node

if TYPE_CHECKING:
    from memory.curation.curate import CurationResult


class _TaskOptions(TypedDict):
    cache_policy: CachePolicy
    persist_result: bool


_PLAIN_TASK: _TaskOptions = {"cache_policy": NO_CACHE, "persist_result": False}


def node_task_runner() -> WrapNode:
    """Return a wrapper that runs each node as a task run; a failed node's task run is Failed.

    Each task run depends on the one before it, so that the graph shows their order.
    """
    last: State[object] | None = None
    log_failures_once()

    def perform(node: Node, execute: Callable[[], NodeResult]) -> NodeResult:
        nonlocal last
        # No tags: for each, Prefect asks the server for a concurrency limit.
        # A function: Prefect treats a string as a template.
        run = _node_task.with_options(name=node.name, task_run_name=lambda: node.name)
        before = None if last is None else [allow_failure(last)]
        last = run(execute, return_state=True, wait_for=before)
        match last.result(raise_on_failure=False):
            case NodeResult() as result:
                return result
            case BaseException() as error:
                raise error
            case other:
                raise TypeError(f"node {node.name!r} gave {other!r}, which is no NodeResult")

    return perform


@task(**_PLAIN_TASK)
def _node_task(execute: Callable[[], NodeResult]) -> object:
    result = execute()
    match result.status:
        case "success":
            return Completed(data=result)
        case "skipped":
            return Completed(name="Skipped", data=result)
        case "failure":
            return Failed(message=result.error, data=result)


def watch_in_log(watch: RunListener) -> RunListener:
    """Return a listener that also writes to the Prefect log of the current run."""
    of_run = copy_context()

    def say(words: str, *given: object) -> None:
        try:
            get_run_logger().info(words, *given)
        except MissingContextError:  # in a thread that the node started
            of_run.copy().run(say, words, *given)

    def on_complete(name: str, result: NodeResult) -> None:
        why = f": {result.error}" if result.error else ""
        seconds = result.duration_ms / 1000
        say("node %r: %s in %.1f s%s", name, result.status, seconds, why)
        watch.on_node_complete(name, result)

    def on_line(name: str, line: str) -> None:
        say("%s", line)
        watch.on_line(name, line)

    return RunListener(
        on_node_start=watch.on_node_start, on_node_complete=on_complete, on_line=on_line
    )


def log_failures_once() -> None:
    """Drop Prefect's "failed with state" record of a task that returned Failed.

    It has an empty traceback and the whole output; the record after it names the reason.
    """
    getLogger("prefect.task_runs").addFilter(_is_news)


def _is_news(record: LogRecord) -> bool:
    return record.module != "task_engine" or record.exc_info != (None, None, None)


def memory_tasks(memory: RunMemory) -> RunMemory:
    """Wrap each call of `memory` in a task run with an artifact."""

    @task(name="surface playbooks", task_run_name="surface playbooks", **_PLAIN_TASK)
    def surface(run_id: str, about: str) -> RecallResult:
        found = memory.surface(run_id, about)
        attach_markdown(
            recall_markdown(found, pages_url(load_settings())),
            key=f"playbooks-{run_id}",
            description="Playbooks shown, and why",
        )
        return found

    @task(name="record execution", task_run_name="record execution", **_PLAIN_TASK)
    def record(report: RunReport, verdict_later: bool) -> RecordedRun | MemoryUnavailable | None:
        recorded = memory.record(report, verdict_later)
        if recorded is not None:
            attach_markdown(
                _recorded(recorded),
                key=f"execution-{report.run_id}",
                description="What was recorded",
            )
        return recorded

    return replace(memory, surface=surface, record=record)


@contextmanager
def note_tasks(
    open_notes: Callable[[], AbstractContextManager[RunNotes]],
) -> Iterator[RunNotes]:
    """Wrap the notes of a run: each answer also becomes an artifact of the current task run."""
    with open_notes() as notes:

        def inject(request: NodeRequest) -> PromptBlock:
            block = notes.inject(request)
            if block.explanation:
                name = sub(r"[^a-z0-9]+", "-", request.node.lower()).strip("-")
                attach_markdown(
                    block.explanation,
                    key=f"notes-{request.run_id}-{name}",
                    description=f"Notes and examples given to {request.node}, and why",
                )
            return block

        @task(name="curate run", task_run_name="curate run", **_PLAIN_TASK)
        def curate(run_id: str) -> "CurationResult | None":
            curated = notes.curate(run_id)
            if curated is not None:
                publish_curation(curated)
            return curated

        yield replace(notes, inject=inject, curate=curate)


def publish_report(report: RunReport, diff: str) -> None:
    """Attach the report, and links to what memory showed, to the current flow run."""
    shown = surfaced_markdown(report.surfaced, pages_url(load_settings()))
    attach_markdown(
        "\n".join(filter(None, (report_markdown(report, diff), shown))),
        key=f"report-{report.run_id}",
        description=f"{report.blueprint}: {report.status}",
    )
    with ignore_outage("the table of nodes"):
        create_table_artifact(
            table_rows(report),
            key=f"nodes-{report.run_id}",
            description=f"Nodes of run {report.run_id}",
        )


def publish_view(view: ViewSpec, run_id: str) -> None:
    """Attach the run's data flow and decisions, from the event log, to the current flow run."""
    attach_markdown(
        view_markdown(view),
        key=f"events-{run_id}",
        description="Which event led to which, what was tainted, and all decisions",
    )


def attach_markdown(text: str, *, key: str, description: str) -> None:
    """Attach Markdown to the current flow run or task run; skipped while the server is down."""
    with ignore_outage(f"the artifact {key}"):
        create_markdown_artifact(text, key=key, description=description)


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
        return inert_line(curated.error)
    kept = [
        f"- {entry.status}: `{entry.id}` {inert_line(entry.author.kind)}, {entry.confidence} of 100"
        for entry in curated.written
    ]
    same = [f"- known already: `{entry_id}`" for entry_id in curated.merged]
    refused = [f"- refused: {inert_line(r.words[:200])}: {r.why}" for r in curated.refused]
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
        return f"Not recorded yet, will be retried: {inert_line(recorded.reason)}"
    credited = ", ".join(recorded.playbooks) or "no playbook"
    lines = [f"Outcome {recorded.outcome}, credited to {credited}."]
    if recorded.reflection and recorded.reflection.improvements:
        lines += ["", "Lessons that wait for a person (`harness memory reflect`):", ""]
        lines += [f"- {inert_line(lesson)}" for lesson in recorded.reflection.improvements]
    return "\n".join(lines)
