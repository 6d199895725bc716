"""The dashboard and the pages of runs."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple, get_args

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.web.api import PlanDependency
from app.web.pages import redirect, render_page
from app.web.waiting_pages import count_waiting
from contracts.run import NodeReport, RunReport
from flows.config.settings import load_settings
from flows.recall.curation import Look, curate_run, rate_run
from flows.recall.library import configured_library, configured_notebook
from flows.runs import runs
from flows.runs.home import DIFF, TRAJECTORY
from flows.runs.report import tools_line
from memory.errors import EntryNotFound
from memory.notes.notebook import Notebook
from memory.notes.run_history import InjectedEntry
from memory.notes.types import Entry
from memory.playbooks.library import Library
from providers.trajectory import event_line, read_trajectory

LATEST_RUNS = 8
MAX_RUNS = 200
MAX_TRAJECTORY_LINES = 400
MAX_DIFF_LINES = 4000

router = APIRouter()


class RunListQuery(BaseModel, frozen=True):
    """Filter of the list of runs; an empty field means all."""

    text: str = ""
    state: str = ""


class TimelineBar(NamedTuple):
    """Start and duration of a node, counted from the start of the run."""

    name: str
    status: str
    start_ms: int
    duration_ms: int


@router.get("/")
def dashboard(request: Request, dependencies: PlanDependency) -> Response:
    """Return the totals, the effect of memory, and the latest runs."""
    with configured_library() as library:
        stats, lift = library.stats(), library.lift()
    folder = load_settings().runs
    values = {
        "waiting": count_waiting(dependencies),
        "stats": stats,
        "lift": lift,
        "runs": runs.list_runs(folder, limit=LATEST_RUNS),
        "runs_total": runs.count_runs(folder),
    }
    return render_page(request, "dashboard", values)


@router.get("/runs")
def list_runs(request: Request, query: Annotated[RunListQuery, Query()]) -> Response:
    """Return the newest runs that match."""
    matching = runs.search_runs(load_settings().runs, about=query.text)
    found = islice((run for run in matching if query.state in {"", run.state}), MAX_RUNS)
    values = {"runs": list(found), "asked": query, "states": get_args(runs.State)}
    return render_page(request, "runs", values)


@router.get("/runs/{run_id}")
def show_run(request: Request, run_id: str, look: Look = "none") -> Response:
    """Return the page of one run. `look` says whether its rating just started a curation."""
    folder = load_settings().runs
    path = runs.find_run(folder, run_id)
    report = runs.load_report(path)
    values: dict[str, object] = {
        "run": runs.read_entry(folder, path.name),
        "report": report,
        "look": look,
    }
    if report is not None:
        values |= _report_values(path, report) | _memory_values(report)
    return render_page(request, "run", values)


@router.post("/runs/{run_id}/rate")
def rate(request: Request, run_id: str, score: Annotated[int, Form()]) -> Response:
    """Save a rating; a successful run with a good rating is curated."""
    saved = rate_run(run_id, score)
    notice = "" if saved.look == "none" else f"?look={saved.look}#learn"
    return redirect(request, f"/runs/{saved.rating.run_id}{notice}")


@router.post("/runs/{run_id}/curate")
def curate(request: Request, run_id: str) -> Response:
    """Curate the run and return its proposals, which need a person's approval."""
    return render_page(request, "curated", {"curated": curate_run(run_id)})


def timeline_bars(nodes: Sequence[NodeReport]) -> Sequence[TimelineBar]:
    """Return one bar for each node, one after the other."""
    bars: list[TimelineBar] = []
    start_ms = 0
    for node in nodes:
        bars.append(TimelineBar(node.name, node.status, start_ms, node.duration_ms))
        start_ms += node.duration_ms
    return bars


def _report_values(path: Path, report: RunReport) -> dict[str, object]:
    diff = (path / DIFF).read_text(errors="replace").splitlines()
    conversation = list(islice(_conversation(path / TRAJECTORY), MAX_TRAJECTORY_LINES + 1))
    bars = timeline_bars(report.nodes)
    return {
        "timeline": bars,
        "total_ms": max(sum(bar.duration_ms for bar in bars), 1),
        "said": conversation[:MAX_TRAJECTORY_LINES],
        "more": len(conversation) > MAX_TRAJECTORY_LINES,
        "diff": [(_diff_class(line), line) for line in diff[:MAX_DIFF_LINES]],
        "diff_lines": len(diff),
        "tools": {node.name: tools_line(node) for node in report.nodes},
        "answered": next((n.output for n in reversed(report.nodes) if n.type == "agentic"), ""),
    }


def _memory_values(report: RunReport) -> dict[str, object]:
    with configured_library() as library:
        playbooks = [(ref, _title(library, ref)) for ref in report.surfaced.playbooks]
    with configured_notebook() as book:
        injected = book.runs.injected_into(report.run_id)
        given = [(one, _find_entry(book, one)) for one in injected]
        rating = book.runs.rating(report.run_id)
    return {"playbooks": playbooks, "given": given, "rating": rating}


def _title(library: Library, ref: str) -> str:
    try:
        return library.get(ref).title
    except EntryNotFound:
        return "(deleted)"


def _find_entry(book: Notebook, injected: InjectedEntry) -> Entry | None:
    try:
        return book.get(injected.entry_id)
    except EntryNotFound:
        return None


def _conversation(path: Path) -> Iterator[str]:
    if path.is_file():
        yield from (event_line(event) for event in read_trajectory(path))


def _diff_class(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "index ", "@@")):
        return "place"
    return {"+": "added", "-": "removed"}.get(line[:1], "same")
