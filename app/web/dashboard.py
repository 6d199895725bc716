"""The first page: totals, whether memory helps, the latest runs."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.web.pages import render_page
from flows.config.settings import load_settings
from flows.recall.library import configured_library
from flows.runs import runs

LATEST_RUNS = 8

router = APIRouter()


@router.get("/")
def dashboard(request: Request) -> Response:
    """Totals of the store, the lift of memory, the newest runs."""
    with configured_library() as opened:
        stats, lift = opened.stats(), opened.lift()
    folder = load_settings().runs
    values = {
        "stats": stats,
        "lift": lift,
        "runs": runs.list_runs(folder, limit=LATEST_RUNS),
        "runs_total": runs.count_runs(folder),
    }
    return render_page(request, "dashboard", values)
