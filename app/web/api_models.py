"""Request and response bodies of the HTTP API."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from flows.audit.question_text import approval_json
from flows.plans.report import PlanStatus
from flows.plans.request import PlanPrompt
from flows.plans.state import PlanState, plan_json
from policy.types import Approval, ApprovalStatus


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PromptBody(PlanPrompt):
    """A prompt, and what its plan may work on."""

    prompt: str = Field(min_length=1, max_length=100_000, pattern=r"\S")


class RunBody(_Body):
    """Consent to a plan, with these grants."""

    grants: frozenset[str] = frozenset()


class DecisionBody(_Body):
    """A person's decision about one action."""

    decision: Literal["approve", "deny"]
    reason: str = Field("", max_length=2_000, description="Reason, or the answer to a question.")

    @property
    def status(self) -> ApprovalStatus:
        """Status of the approval after the decision."""
        return "approved" if self.decision == "approve" else "denied"


class QuestionPart(BaseModel):
    """One part of a question to a person."""

    title: str
    lines: list[str]


class ApprovalAnswer(BaseModel):
    """An action that the policy stopped."""

    id: str
    run_id: str
    status: str
    step: int
    node: str = Field(description="Node of an agent's call, which belongs to no step.")
    agent: str
    op: str
    question: list[QuestionPart] = Field(
        description="What will happen, to what, why it is asked, where the idea came from, and "
        "what yes and no do: the text of the forms, the pages and the command line."
    )
    arguments: JsonValue
    rule: str
    argument: str
    tags: list[str]
    reason: str
    provenance: list[str]
    also: list[str] = Field(description="Other violated rules; an approval covers all of them.")
    asked_at: datetime
    expires_at: datetime
    decided_by: str | None


class StepAnswer(BaseModel):
    """A step and its result."""

    index: int
    op: str
    status: str
    reason: str
    output: JsonValue
    rule: str
    provenance: list[str]


class PlanAnswer(BaseModel):
    """A plan and its progress; it runs after somebody agreed to it."""

    id: str
    status: PlanStatus
    flow_run_id: str | None
    flow_run_url: str | None
    agreed: bool
    prompt: str
    repo: str
    plan: JsonValue = Field(description="Its id, and its steps as the planner wrote them.")
    grants: list[str]
    allow_change: list[str]
    missing_grants: list[str] = Field(
        description="Capabilities that the plan needs and nobody granted."
    )
    steps: list[StepAnswer]
    approvals: list[ApprovalAnswer] = Field(description="Pending approvals.")


class PlanLine(BaseModel):
    """A plan in a list."""

    id: str
    started_at: datetime
    status: PlanStatus
    agreed: bool
    steps: int
    prompt: str
    repo: str
    flow_run_url: str | None


class Started(BaseModel):
    """The plan runs in a process of its own; GET /plans/{id} and /events show its progress."""

    id: str
    status: Literal["started"] = "started"


def plan_answer(state: PlanState) -> PlanAnswer:
    """Return the response body for a plan."""
    return PlanAnswer.model_validate(plan_json(state))


def approval_answer(approval: Approval) -> ApprovalAnswer:
    """Return the response body for an approval."""
    return ApprovalAnswer.model_validate(approval_json(approval))
