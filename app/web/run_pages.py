"""Runs: the list, and all that is known of one."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple, get_args

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.web.pages import redirect, render_page
from contracts.run import NodeReport, RunReport
from flows.config.settings import load_settings
from flows.execution.wiring import open_event_log
from flows.recall.curation import curate_run
from flows.recall.library import configured_library, configured_notebook
from flows.recall.rate import Look, rate_run
from flows.runs import runs
from flows.runs.layout import DIFF, TRAJECTORY
from flows.runs.report import tools_line
from memory.errors import NoteNotFound, PlaybookNotFound
from memory.notes.notebook import Notebook
from memory.notes.run_history import InjectedEntry
from memory.notes.types import Entry
from memory.playbooks.library import Library
from policy.errors import LogDamaged, LogUnavailable
from policy.log.view_spec import Graph, Paragraph, ViewTable
from policy.log.view_text import graph_rows, mermaid
from policy.log.views import run_view
from providers.read_trajectory import event_line, read_trajectory

MAX_RUNS = 200
MAX_TRAJECTORY_LINES = 400
MAX_DIFF_LINES = 4000
MAX_EVENTS = 400

router = APIRouter()


class RunListQuery(BaseModel, frozen=True):
    """What the list of runs is asked for; empty means all."""

    text: str = ""
    state: str = ""


class TimelineBar(NamedTuple):
    """When a node ran, counted from the start of the run."""

    name: str
    status: str
    start_ms: int
    duration_ms: int


@router.get("/runs")
def list_runs(request: Request, asked: Annotated[RunListQuery, Query()]) -> Response:
    """The newest runs that fit."""
    about = runs.search_runs(load_settings().runs, about=asked.text)
    found = list(islice((run for run in about if asked.state in {"", run.state}), MAX_RUNS))
    values = {"runs": found, "asked": asked, "states": get_args(runs.State)}
    return render_page(request, "runs", values)


@router.get("/runs/{run_id}")
def show_run(request: Request, run_id: str, look: Look = "none") -> Response:
    """One run: verdict, timeline, what was given and said, what led to what, diff.

    `look` is what its rating has just started.
    """
    folder = load_settings().runs
    own = runs.find_run(folder, run_id)
    run = runs.read_entry(folder, own.name)
    report = runs.load_report(own)
    values: dict[str, object] = {"run": run, "report": report, "look": look}
    if report is not None:
        values |= _report_values(own, report) | _remembered(report) | _led(own.name)
    return render_page(request, "run", values)


@router.post("/runs/{run_id}/rate")
def rate(request: Request, run_id: str, score: Annotated[int, Form()]) -> Response:
    """Keep what a person thinks of a run; a good one is looked at for what it teaches."""
    rated = rate_run(run_id, score)
    told = "" if rated.look == "none" else f"?look={rated.look}#learn"
    return redirect(request, f"/runs/{rated.rating.run_id}{told}")


@router.post("/runs/{run_id}/curate")
def curate(request: Request, run_id: str) -> Response:
    """Ask the curator what the run teaches; its proposals wait for a person."""
    curated = curate_run(run_id)
    return render_page(request, "curated", {"curated": curated})


def _report_values(own: Path, report: RunReport) -> dict[str, object]:
    lines = (own / DIFF).read_text(errors="replace").splitlines()
    said = list(islice(_said(own / TRAJECTORY), MAX_TRAJECTORY_LINES + 1))
    timeline = timeline_bars(report.nodes)
    return {
        "timeline": timeline,
        "total_ms": max(sum(span.duration_ms for span in timeline), 1),
        "said": said[:MAX_TRAJECTORY_LINES],
        "more": len(said) > MAX_TRAJECTORY_LINES,
        "diff": [(_kind(line), line) for line in lines[:MAX_DIFF_LINES]],
        "diff_lines": len(lines),
        "tools": {node.name: tools_line(node) for node in report.nodes},
        "answered": next((n.output for n in reversed(report.nodes) if n.type == "agentic"), ""),
    }


def _remembered(report: RunReport) -> dict[str, object]:
    with configured_library() as opened:
        playbooks = [_titled(opened, ref) for ref in report.surfaced.playbooks]
    with configured_notebook() as book:
        given = [_entry(book, shown) for shown in book.runs.injected_into(report.run_id)]
        rating = book.runs.rating(report.run_id)
    return {"playbooks": playbooks, "given": given, "rating": rating}


def _led(run_id: str) -> dict[str, object]:
    try:
        with open_event_log() as log:
            view = run_view(log.history(run_id), run_id)
    except (LogDamaged, LogUnavailable) as error:
        return {"about": str(error), "tables": (), "events": (), "events_all": 0, "flowchart": ""}
    (graph,) = [part for part in view.parts if isinstance(part, Graph)]
    return {
        "about": " ".join(part.text for part in view.parts if isinstance(part, Paragraph)),
        "tables": [part for part in view.parts if isinstance(part, ViewTable) and part.rows],
        "events": graph_rows(graph)[:MAX_EVENTS],
        "events_all": len(graph.nodes),
        "flowchart": mermaid(graph),
    }


def _titled(opened: Library, ref: str) -> tuple[str, str]:
    try:
        return ref, opened.get(ref).title
    except PlaybookNotFound:
        return ref, "(deleted since)"


def _entry(book: Notebook, shown: InjectedEntry) -> tuple[InjectedEntry, Entry | None]:
    try:
        return shown, book.get(shown.entry_id)
    except NoteNotFound:
        return shown, None


def timeline_bars(nodes: Sequence[NodeReport]) -> Sequence[TimelineBar]:
    """One span a node, one after the other; a fix is part of its validate node's time."""
    made: list[TimelineBar] = []
    at = 0
    for node in nodes:
        made.append(TimelineBar(node.name, node.status, at, node.duration_ms))
        at += node.duration_ms
    return made


def _said(path: Path) -> Iterator[str]:
    if path.is_file():
        yield from (event_line(event) for event in read_trajectory(path))


def _kind(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "index ", "@@")):
        return "place"
    return {"+": "added", "-": "removed"}.get(line[:1], "same")
