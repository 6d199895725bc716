"""The report of a plan as JSON, and its steps as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from contracts.json import Json
from contracts.run import DecisionCounts
from flows.audit.approval_text import SHORT_ARGUMENT, argument_lines, value_in_one_line
from nodes.text import code_block, escape_invisible
from policy.plan.plan_log import StepOutcome
from policy.plan.registry import plain_json
from policy.types import Plan, PlanStep

PlanStatus = Literal["success", "failure", "waiting", "planned", "running", "cancelled", "lost"]
"""`planned`: not started. `lost`: its process died before the last step; it can be resumed."""


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """The outcome of one step."""

    index: int
    op: str
    status: str
    reason: str = ""
    output: Json = None
    rule: str = ""
    provenance: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PlanReport:
    """The report that `harness plan --json` prints. `approvals` are ids of pending approvals."""

    run_id: str
    status: PlanStatus
    prompt: str
    plan: Plan
    flow_run_id: str | None = None
    flow_run_url: str | None = None
    steps: tuple[StepReport, ...] = ()
    approvals: tuple[str, ...] = ()
    decisions: DecisionCounts = field(default_factory=DecisionCounts)
    error: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the report as one JSON document."""
        return {
            "run_id": self.run_id,
            "flow_run_id": self.flow_run_id,
            "flow_run_url": self.flow_run_url,
            "status": self.status,
            "prompt": self.prompt,
            "plan": {"id": self.plan.id, "steps": plain_json(self.plan.as_json())},
            "steps": [plain_json(vars(step)) for step in self.steps],
            "approvals": list(self.approvals),
            "decisions": vars(self.decisions),
            "error": self.error,
        }


def step_report(
    plan: Plan, index: int, ended: StepOutcome, decisions: Sequence[Mapping[str, Json]]
) -> StepReport:
    """Return the outcome of a step; rule and provenance come from the last decision about it."""
    own = [body for body in decisions if body.get("step") == index]
    last = own[-1] if own and ended.status in ("denied", "waiting") else {}
    provenance = last.get("provenance", ())
    return StepReport(
        index=index,
        op=plan.steps[index].op,
        status=ended.status,
        reason=ended.reason,
        output=ended.entity.content if ended.entity and ended.status == "done" else None,
        rule=str(last.get("rule", "")),
        provenance=tuple(map(str, provenance)) if isinstance(provenance, (list, tuple)) else (),
    )


def plan_lines(plan: Plan) -> list[str]:
    """Return the whole plan as text; long arguments stand below their step."""
    return [
        f"{index}. {line}" if number == 0 else line
        for index, step in enumerate(plan.steps)
        for number, line in enumerate(step_lines(step))
    ]


def step_lines(step: PlanStep) -> list[str]:
    """Return one step as text."""
    texts = {name: value_in_one_line(value) for name, value in step.args.items()}
    below = [name for name, text in texts.items() if len(text) > SHORT_ARGUMENT]
    args = ", ".join(f"{name}={'…' if name in below else texts[name]}" for name in texts)
    extra = [
        f"when {step.when}" if step.when else "",
        f"for each of {step.foreach}" if step.foreach else "",
        f"again up to {step.retry} times" if step.retry else "",
        f"composed: {step.compose}" if step.compose else "",
        f"data {', '.join(sorted(step.data_caps))}" if step.data_caps else "",
    ]
    more = " ".join(escape_invisible("; ".join(part for part in extra if part)).split())
    lines = [f"{step.op}({args})" + (f"   [{more}]" if more else "")]
    return lines + [line for name in below for line in argument_lines(name, step.args[name])]


def plan_form(prompt: str, plan: Plan, missing: frozenset[str]) -> str:
    """Return the text of the form that asks whether a plan may run."""
    grants = ", ".join(sorted(missing))
    lines = [
        "A plan was made for this prompt:",
        "",
        code_block(prompt),
        "",
        code_block("\n".join(plan_lines(plan))),
    ]
    if missing:
        lines += ["", f"If you run it, you grant it: **{grants}**"]
    return "\n".join(lines) + "\n"
