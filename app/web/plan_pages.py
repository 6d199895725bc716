"""The pages of plans: shells, whose content the browser renders from a view."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.web.api import PlanDependency
from app.web.errors import PageRoute
from app.web.pages import render_page
from flows.plans.manage import find_plan

router = APIRouter(route_class=PageRoute)


@router.get("/plans", include_in_schema=False)
def list_plans(request: Request) -> Response:
    """Return the list of plans."""
    values = {"title": "Plans", "view": "/views/plans", "command": "harness plan list"}
    return render_page(request, "view", values)


@router.get("/plans/{name}", include_in_schema=False)
def show_plan(request: Request, name: str, dependencies: PlanDependency) -> Response:
    """Return the page of one plan."""
    run_id = find_plan(dependencies, name)
    values = {
        "title": f"Plan {run_id}",
        "view": f"/views/plans/{run_id}",
        "command": f"harness plan show {run_id}",
    }
    return render_page(request, "view", values)
