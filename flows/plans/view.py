"""The views of plans: the list, and one plan with its steps, decisions, answers and events."""

from collections.abc import Iterator, Mapping

from flows.audit.approval_text import headline
from flows.plans.manage import list_plans
from flows.plans.report import PlanStatus, step_lines
from flows.plans.run import PlanDependencies
from flows.plans.state import PlanState, plan_state
from flows.views.run import run_parts, run_view
from flows.views.spec import Badge, Cell, Code, Facts, Paragraph, Part, Table, Tone, ViewSpec, link
from policy.types import Approval, ApprovalStatus
from sandbox.redaction import redact_url

_TONES: Mapping[str, Tone] = {
    **dict.fromkeys(("success", "done", "approved", "used"), "good"),
    **dict.fromkeys(("failure", "failed", "denied", "lost", "revoked"), "bad"),
    **dict.fromkeys(("waiting", "pending", "running", "planned"), "waiting"),
}


def plans_view(deps: PlanDependencies, *, limit: int) -> ViewSpec:
    """Return the list of the newest plans."""
    found = list_plans(deps, limit=limit)
    rows = tuple(
        (
            link(one.run_id, f"/plans/{one.run_id}"),
            _badge(one.status),
            one.started_at,
            str(one.steps),
            one.prompt[:200],
            one.repo,
        )
        for one in found
    )
    head = ("plan", "status", "started", "steps", "prompt", "repository")
    table = Table(title="Newest plans", head=head, rows=rows)
    start = Paragraph(text="No plans yet. Make one: harness plan 'what you want' --repo FOLDER")
    return ViewSpec(title="Plans", parts=(table,) if found else (start,))


def plan_view(deps: PlanDependencies, run_id: str) -> ViewSpec:
    """Return the view of one plan.

    Raises:
        RunNotFound: there is no plan under this id.
        LogDamaged, LogUnavailable.
    """
    state = plan_state(deps, run_id)
    approvals = deps.approvals.list(run_id=run_id)
    about = Facts(rows=tuple(_facts(state)))
    prompt = Code(title="Prompt", text=state.report.prompt)
    own: tuple[Part, ...] = (about, prompt, _steps(state), _answers(approvals))
    parts = (*own, *run_parts(deps.log.history(run_id), run_id))
    return ViewSpec(title=f"Plan {run_id}", parts=parts)


def view_of(deps: PlanDependencies, run_id: str) -> ViewSpec:
    """Return the view of a plan of this home, otherwise that of the run of this id."""
    if deps.log.events(run_id, kind="plan", merged=False, limit=1):
        return plan_view(deps, run_id)
    return run_view(deps.log.history(run_id), run_id)


def _facts(state: PlanState) -> Iterator[tuple[str, Cell]]:
    report = state.report
    yield "status", _badge(report.status)
    yield "repository", redact_url(state.request.repo)
    yield "grants", ", ".join(sorted(state.request.grants)) or "none"
    if state.request.allow_change:
        yield "may change", ", ".join(state.request.allow_change)
    if state.missing_grants:
        yield "needs and has not", ", ".join(sorted(state.missing_grants))
    if not state.agreed:
        yield "agreed to", "by nobody yet"
    if report.error:
        yield "error", report.error
    if report.flow_run_url:
        yield "in Prefect", link("flow run", report.flow_run_url)
    for one in state.pending_approvals:
        yield "waits for you", link(headline(one), f"/approvals#{one.id}")


def _steps(state: PlanState) -> Table:
    ended = {step.index: step for step in state.report.steps}
    rows: list[tuple[Cell, ...]] = []
    for index, step in enumerate(state.report.plan.steps):
        end = ended.get(index)
        why = " ".join(part for part in (end.rule, end.reason) if part) if end else ""
        origin = " → ".join(end.provenance) if end else ""
        does = "\n".join(step_lines(step))
        rows.append((str(index), does, _badge(end.status if end else "planned"), why, origin))
    head = ("step", "what it does", "status", "reason", "untrusted text came from")
    return Table(title="Steps", head=head, rows=tuple(rows))


def _answers(approvals: list[Approval]) -> Table:
    rows = tuple(
        (
            link(one.id, f"/approvals#{one.id}"),
            headline(one),
            _badge(one.status),
            one.decided_by or "",
            one.reason,
        )
        for one in reversed(approvals)
    )
    head = ("approval", "question", "status", "by", "answer or reason")
    return Table(title="Questions and answers", head=head, rows=rows)


def _badge(status: PlanStatus | ApprovalStatus | str) -> Badge:
    return Badge(text=status, tone=_TONES.get(status, "plain"))
