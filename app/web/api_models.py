"""What programs send to the pages' server and what they get: the border of the HTTP API."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from flows.audit.approval_text import approval_json
from flows.plans.report import PlanStatus
from flows.plans.state import PlanState
from flows.runs.addresses import without_password
from policy.types import Approval, ApprovalStatus


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PromptBody(_Body):
    """What you want, and what the plan may work on."""

    prompt: str = Field(min_length=1, max_length=100_000, pattern=r"\S")
    repo: str = Field(min_length=1, description="Folder, git repository or its URL.")
    grants: frozenset[str] = Field(frozenset(), description="Capabilities, or `release:TAG`.")
    allow_change: tuple[str, ...] = Field(
        (), description="Patterns of protected files that may be pushed changed."
    )
    intent: str | None = Field(None, description="A text to work on that nobody vouches for.")
    intent_from: str = Field("the request", description="Where that text comes from.")


class RunBody(_Body):
    """Agree to the plan as it is, and grant it these."""

    grants: frozenset[str] = frozenset()


class DecisionBody(_Body):
    """What a person says of one action."""

    decision: Literal["approve", "deny"]
    reason: str = Field("", max_length=2_000, description="Where you are asked: your answer.")

    @property
    def status(self) -> ApprovalStatus:
        """What becomes of the approval."""
        return "approved" if self.decision == "approve" else "denied"


class ApprovalAnswer(BaseModel):
    """An action that the policy stopped: what it is, and what led there."""

    id: str
    run_id: str
    status: str
    step: int
    node: str = Field(description="Of an agent's call; such a call is of no step.")
    agent: str
    op: str
    arguments: JsonValue
    rule: str
    argument: str
    tags: list[str]
    reason: str
    provenance: list[str]
    also: list[str] = Field(description="What else it breaks: a yes lifts all of it.")
    asked_at: datetime
    expires_at: datetime
    decided_by: str | None


class StepAnswer(BaseModel):
    """How a step ended, or that it waits."""

    index: int
    op: str
    status: str
    reason: str
    output: JsonValue
    rule: str
    provenance: list[str]


class PlanAnswer(BaseModel):
    """A plan and how far it came. It runs once somebody agreed."""

    id: str
    status: PlanStatus
    agreed: bool
    prompt: str
    repo: str
    plan: JsonValue = Field(description="Its id, and the steps as the planner wrote them.")
    grants: list[str]
    allow_change: list[str]
    missing_grants: list[str] = Field(description="Asked for by the plan, granted by nobody.")
    steps: list[StepAnswer]
    approvals: list[ApprovalAnswer] = Field(description="Those that wait for a decision.")


class Started(BaseModel):
    """The plan goes on in a process of its own; GET /plans/{id} and /events tell how."""

    id: str
    status: Literal["started"] = "started"


def plan_answer(state: PlanState) -> PlanAnswer:
    """A plan, as programs are told of it."""
    report = state.report.as_json()
    return PlanAnswer.model_validate(
        {
            **report,
            "id": state.report.run_id,
            "agreed": state.agreed,
            "repo": without_password(state.request.repo),
            "grants": sorted(state.request.grants),
            "allow_change": list(state.request.allow_change),
            "missing_grants": sorted(state.missing_grants),
            "approvals": [approval_json(one) for one in state.pending_approvals],
        }
    )


def approval_answer(approval: Approval) -> ApprovalAnswer:
    """An approval, as programs are told of it."""
    return ApprovalAnswer.model_validate(approval_json(approval))
