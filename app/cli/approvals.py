"""`harness approvals`: list, show and decide approvals."""

from typing import Annotated

import typer

from app.cli.plans import print_plan_report
from app.terminal.identity import user_name
from app.terminal.options import AsJson
from app.terminal.output import print_json, print_line, print_result, print_table
from app.terminal.prompts import terminal_prompt
from flows.audit.approval_text import headline
from flows.audit.question_text import approval_json, full_text
from flows.config.settings import load_settings
from flows.plans.dependencies import plan_dependencies
from flows.plans.start import after_decision_line, resume_flow_run, run_plan_in_prefect
from policy.types import ApprovalStatus

Approval = Annotated[str, typer.Argument(help="An approval id, or the beginning of one.")]

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Include decided approvals.")] = False,
    as_json: AsJson = False,
) -> None:
    """List pending approvals, newest first."""
    with plan_dependencies(load_settings()) as dependencies:
        found = dependencies.approvals.list(pending=not everything)
    if as_json:
        print_json([approval_json(one) for one in found])
    elif not found:
        print_line("no pending approvals")
    else:
        rows = [(one.id, one.run_id, one.status, headline(one)[:90]) for one in found]
        print_table(("approval", "run", "status", "action"), rows)


@app.command("show")
def show(approval: Approval, as_json: AsJson = False) -> None:
    """Show one approval: the action, the rule, and where the untrusted text came from."""
    with plan_dependencies(load_settings()) as dependencies:
        found = dependencies.approvals.get(approval)
    text = "\n".join((f"{found.id}: {found.status}", *full_text(found)))
    print_result(approval_json(found), text, as_json)


@app.command("approve")
def approve(
    approval: Approval,
    reason: Annotated[str, typer.Option(help="Reason, stored with the decision.")] = "",
    as_json: AsJson = False,
) -> None:
    """Allow exactly this action, once; a plan or a run suspended in Prefect then continues."""
    _decide(approval, "approved", reason=reason, as_json=as_json)


@app.command("deny")
def deny(
    approval: Approval,
    reason: Annotated[str, typer.Option(help="Reason, shown in the report.")] = "",
    as_json: AsJson = False,
) -> None:
    """Refuse this action; the plan or the run then ends without it."""
    _decide(approval, "denied", reason=reason, as_json=as_json)


@app.command("answer")
def answer(
    approval: Approval,
    words: Annotated[str, typer.Argument(help="Your answer; the plan trusts it.")],
    as_json: AsJson = False,
) -> None:
    """Answer a question of a plan; the plan then continues."""
    _decide(approval, "approved", reason=words, as_json=as_json)


def _decide(approval: str, status: ApprovalStatus, *, reason: str, as_json: bool) -> None:
    settings = load_settings()
    with plan_dependencies(settings, ask_person=terminal_prompt()) as dependencies:
        decided = dependencies.approvals.decide(approval, status, by=user_name(), reason=reason)
        after = resume_flow_run(dependencies, settings, decided)
        if after == "here" and not decided.node:
            report = run_plan_in_prefect(dependencies, settings, decided.run_id)
            print_plan_report(report, as_json=as_json)
            return
    line = f"{decided.id}: {decided.status}; {after_decision_line(decided, after, settings)}"
    print_result(approval_json(decided), line, as_json)
