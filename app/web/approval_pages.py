"""Approvals: what the policy stopped, what led there, and a person's decision."""

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response

from app.web.api import Shop
from app.web.pages import redirect, render_page
from flows.approval_decided import resume_in_background
from flows.config.settings import load_settings
from policy.types import ApprovalStatus

DECIDED_BY = "the pages"
MAX_DECIDED = 50

router = APIRouter()


@router.get("/approvals")
def list_approvals(request: Request, shop: Shop) -> Response:
    """Those that wait, each with what led there; below, those that were decided last."""
    everything = shop.approvals.list()
    waiting = shop.approvals.list(pending=True)
    values = {
        "waiting": waiting,
        "decided": [one for one in everything if one not in waiting][:MAX_DECIDED],
    }
    return render_page(request, "approvals", values)


@router.post("/approvals/{name}/decision")
def decide(
    request: Request,
    name: str,
    shop: Shop,
    answer: Annotated[Literal["approve", "deny"], Form()],
    reason: Annotated[str, Form(max_length=2_000)] = "",
) -> Response:
    """Approve or deny exactly this action, once; its plan, or its suspended run, goes on."""
    status: ApprovalStatus = "approved" if answer == "approve" else "denied"
    decided = shop.approvals.decide(name, status, by=DECIDED_BY, reason=reason)
    resume_in_background(shop, load_settings(), decided)
    return redirect(request, "/approvals")
