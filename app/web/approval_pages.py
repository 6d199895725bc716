"""The page of approvals: pending actions, decisions, and earlier decisions."""

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.web.api import PlanDependency
from app.web.pages import redirect, render_page
from flows.config.settings import load_settings
from flows.plans.start import resume_in_background
from policy.types import ApprovalStatus

DECIDED_BY = "the pages"
MAX_DECIDED = 50

router = APIRouter()


@router.get("/approvals")
def list_approvals(request: Request, dependencies: PlanDependency) -> Response:
    """Return all pending approvals, and below them the latest decided ones."""
    pending = dependencies.approvals.list(pending=True)
    decided = [one for one in dependencies.approvals.list() if one not in pending]
    values = {"waiting": pending, "decided": decided[:MAX_DECIDED]}
    return render_page(request, "approvals", values)


@router.post("/approvals/{name}/decision")
def decide(
    request: Request,
    name: str,
    dependencies: PlanDependency,
    answer: Annotated[Literal["approve", "deny"], Form()],
    reason: Annotated[str, Form(max_length=2_000)] = "",
) -> Response:
    """Approve or deny exactly this action, once; a plan or a suspended run then continues."""
    status: ApprovalStatus = "approved" if answer == "approve" else "denied"
    decided = dependencies.approvals.decide(name, status, by=DECIDED_BY, reason=reason)
    resume_in_background(dependencies, load_settings(), decided)
    return redirect(request, "/approvals")
