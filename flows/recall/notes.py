"""Notes and examples for the prompts of a run. Knows nothing of Prefect."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from contracts.errors import HarnessError, Unavailable
from contracts.run import NodeResult, RunContext, RunReport, SurfacedMemory
from contracts.sandbox import Sandbox
from flows.config.memory import MemorySettings
from flows.config.settings import load_settings
from flows.runs.report import inert_line, page_link
from flows.runs.request import ResolvedRequest
from flows.services.daemons import pages_url
from memory.scope import Scope
from nodes.execute import RunAgent
from nodes.types import Agentic

if TYPE_CHECKING:
    from memory.curation.curate import CurationResult
    from memory.notes.injection import Injection
    from memory.notes.notebook import Notebook
    from memory.notes.types import Entry

_log = logging.getLogger(__name__)


class NodeRequest(NamedTuple):
    """The agentic node that is about to start, and the scope it runs for."""

    run_id: str
    node: str
    viewer: Scope
    task: str


@dataclass(frozen=True, kw_only=True)
class PromptBlock:
    """Text for a node's prompt, and an explanation in Markdown for people; both may be empty."""

    text: str = ""
    explanation: str = ""


@dataclass(frozen=True, kw_only=True)
class RunNotes:
    """Functions that a run calls on the notebook. An outage is logged and fails no run."""

    inject: Callable[[NodeRequest], PromptBlock]
    """Takes a node; returns the text for its prompt, and logs that it was shown."""
    surfaced: Callable[[str], SurfacedMemory]
    """Takes a run's id; returns the ids of all notes and examples it was shown."""
    is_worth_curating: Callable[[RunReport], bool]
    """Takes a finished run; returns True if it should be curated without a request."""
    curate: Callable[[str], "CurationResult | None"]
    """Takes a run's id; returns what was learned. None: not curated, or curated before."""


def without_notes() -> RunNotes:
    """Return notes that are always empty."""
    return RunNotes(
        inject=lambda _: PromptBlock(),
        surfaced=lambda _: SurfacedMemory(),
        is_worth_curating=lambda _: False,
        curate=lambda _: None,
    )


@contextmanager
def run_notes(options: MemorySettings) -> Iterator[RunNotes]:
    """Yield the notes that the settings name. The first call opens the database."""
    if not options.enabled:
        yield without_notes()
        return
    lock = Lock()
    opened: list[Notebook] = []
    with ExitStack() as stack:

        def book() -> "Notebook":
            from flows.recall.library import configured_notebook  # imports SQLAlchemy

            with lock:  # lanes ask at once
                if not opened:
                    opened.append(stack.enter_context(configured_notebook(options)))
                return opened[0]

        def inject(request: NodeRequest) -> PromptBlock:
            try:
                injection = book().inject(request.viewer, request.task)
                book().runs.log_injection(request.run_id, request.node, injection)
            except Unavailable as error:
                _log.warning("node %r runs without notes: %s", request.node, error)
                return PromptBlock()
            site = pages_url(load_settings())
            return PromptBlock(text=injection.text, explanation=prompt_markdown(injection, site))

        def surfaced(run_id: str) -> SurfacedMemory:
            try:
                shown = book().runs.injected_into(run_id)
            except Unavailable as error:
                _log.warning("cannot read which notes run %s was shown: %s", run_id, error)
                return SurfacedMemory()
            kinds = {one.entry_id: one.kind for one in shown}
            return SurfacedMemory(
                notes=tuple(i for i, kind in kinds.items() if kind != "example"),
                examples=tuple(i for i, kind in kinds.items() if kind == "example"),
            )

        def worth_curating(report: RunReport) -> bool:
            from flows.recall.curation import is_worth_curating  # imports SQLAlchemy

            try:
                return is_worth_curating(book(), report, options)
            except Unavailable as error:
                _log.warning("run %s is not curated: %s", report.run_id, error)
                return False

        yield RunNotes(
            inject=inject, surfaced=surfaced, is_worth_curating=worth_curating, curate=_curate
        )


def _curate(run_id: str) -> "CurationResult | None":
    from flows.recall.curation import curate_uncurated  # imports SQLAlchemy

    try:
        return curate_uncurated(run_id)
    except HarnessError as error:
        _log.warning("run %s could not be curated: %s", run_id, error)
        return None


def with_notes(
    run_agent: RunAgent, book: RunNotes, request: ResolvedRequest, run_id: str
) -> RunAgent:
    """Return `run_agent` with the notes and examples for each agent's scope added to its prompt."""
    task = request.intent or request.definition.description

    def run(node: Agentic, ctx: RunContext, sandbox: Sandbox) -> NodeResult:
        name = node.agent or ctx.agent
        viewer = Scope(agent=name, user=request.user or None, company=request.company or None)
        block = book.inject(NodeRequest(run_id, node.name, viewer, task))
        memory = "\n\n".join(filter(None, (ctx.memory, block.text)))
        return run_agent(node, replace(ctx, memory=memory), sandbox)

    return run


def prompt_markdown(injection: "Injection", site: str | None = None) -> str:
    """Return the notes and examples added to a prompt, and why, as Markdown; empty for none."""
    if not (injection.entries or injection.omitted or injection.without_vector):
        return ""
    rows = [_row(entry, "yes", injection, site) for entry in injection.entries]
    rows += [_row(one.entry, f"no: {one.reason}", injection, site) for one in injection.omitted]
    head = ["| id | text | scope | shown | distance |", "|---|---|---|---|---|"]
    table = ["", *head, *rows] if rows else []
    return "\n".join([*(f"- {inert_line(why)}" for why in injection.reasons), *table])


def _row(entry: "Entry", shown: str, injection: "Injection", site: str | None) -> str:
    from memory.notes.content import kind_of, searchable_text
    from memory.scope import scope_label

    distance = injection.distances.get(entry.key)
    shown_distance = "" if distance is None else f"{distance:.2f}"
    # The text of a note may come from an agent: it must not become markup of the page.
    text = inert_line(searchable_text(entry)[:120])
    kind = kind_of(entry)
    link = page_link(f"`harness {kind}s show {entry.id}`", site, kind, entry.id)
    scope = inert_line(scope_label(entry.scope))
    return f"| {link} | {text} | {scope} | {inert_line(shown)} | {shown_distance} |"
