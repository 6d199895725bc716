"""Runs: the list, and all that is known of one."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple, get_args

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.web.pages import page
from contracts.run import NodeReport
from flows import runs
from flows.settings import load_settings
from providers.read_trajectory import read_trajectory, shown

LISTED = 200
SAID = 400
DIFF_LINES = 4000

router = APIRouter()


class RunFilter(BaseModel, frozen=True):
    """What the list of runs is asked for; empty means all."""

    text: str = ""
    state: str = ""

    def fits(self, run: runs.RunEntry) -> bool:
        """Whether this run is meant."""
        words = f"{run.run_id} {run.blueprint} {run.repo} {run.intent}".lower()
        return self.text.lower() in words and self.state in {"", run.state}


class Span(NamedTuple):
    """When a node ran, counted from the start of the run."""

    name: str
    status: str
    start_ms: int
    duration_ms: int


@router.get("/runs")
def list_runs(request: Request, asked: Annotated[RunFilter, Query()]) -> Response:
    """The newest runs that fit."""
    fitting = filter(asked.fits, runs.each_run(load_settings().runs))
    found = list(islice(fitting, LISTED))
    values = {"runs": found, "asked": asked, "states": get_args(runs.State)}
    return page(request, "runs", values)


@router.get("/runs/{run_id}")
def show_run(request: Request, run_id: str) -> Response:
    """One run: verdict, timeline, what was shown and said, diff."""
    folder = load_settings().runs
    own = runs.find_run(folder, run_id)
    run = runs.read_entry(folder, run_id)
    if not (own / "report.json").is_file():
        return page(request, "run", {"run": run, "report": None})
    report = runs.read_report(folder, run_id)
    lines = runs.read_diff(folder, run_id).splitlines()[:DIFF_LINES]
    said = list(islice(_said(own / "trajectory.jsonl"), SAID + 1))
    timeline = spans(report.nodes)
    values = {
        "run": run,
        "report": report,
        "timeline": timeline,
        "total_ms": max(sum(span.duration_ms for span in timeline), 1),
        "shown": report.surfaced.playbooks,
        "said": said[:SAID],
        "more": len(said) > SAID,
        "diff": [(_kind(line), line) for line in lines],
    }
    return page(request, "run", values)


def spans(nodes: Sequence[NodeReport]) -> Sequence[Span]:
    """One span a node, one after the other; a fix is part of its validate node's time."""
    made: list[Span] = []
    at = 0
    for node in nodes:
        made.append(Span(node.name, node.status, at, node.duration_ms))
        at += node.duration_ms
    return made


def _said(path: Path) -> Iterator[str]:
    if path.is_file():
        yield from (shown(event) for event in read_trajectory(path))


def _kind(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "index ", "@@")):
        return "place"
    return {"+": "added", "-": "removed"}.get(line[:1], "same")
