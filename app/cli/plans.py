"""`harness plan` and `harness approvals`: a prompt becomes a plan, and a person decides."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.terminal.files import read_intent
from app.terminal.identity import user_name
from app.terminal.options import AllowChange, AsJson
from app.terminal.output import print_json, print_line, print_message, print_result
from app.terminal.present import print_table
from app.terminal.prompts import confirm, terminal_approver, terminal_prompt
from contracts.errors import HarnessError, OptionInvalid
from contracts.text import check_text

if TYPE_CHECKING:
    from flows.plans.report import PlanReport
    from flows.plans.request import PlanRequest
    from flows.plans.run import PlanDependencies
    from policy.types import ApprovalStatus, Plan

Approval = Annotated[str, typer.Argument(help="Its id, or how that begins.")]
EXIT_WAITING = 4

app = typer.Typer(help="What the policy stopped, and a person may allow.", no_args_is_help=True)


def plan(
    prompt: Annotated[str, typer.Argument(help="What you want, in your own words.")],
    repo: Annotated[str, typer.Option(help="Folder, git repository or URL to work on.")] = ".",
    grant: Annotated[
        list[str] | None, typer.Option(metavar="CAP", help="A capability, or release:TAG.")
    ] = None,
    allow_change: AllowChange = None,
    model: Annotated[str | None, typer.Option(help="Who plans; scripted/<file> works.")] = None,
    intent_from: Annotated[
        Path | None, typer.Option(help="A file to work on, such as an issue; - for stdin.")
    ] = None,
    untrusted: Annotated[
        bool, typer.Option("--untrusted", help="Nobody vouches for --intent-from.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan only.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Run it without asking first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a plan of a prompt, show it, and run it, each step as the policy lets it."""
    from flows.config.settings import load_settings
    from flows.plans.dependencies import plan_dependencies
    from flows.plans.run import draft_plan

    settings = load_settings()
    check_text("--model", model or "")
    asked = _request(prompt, repo, grant or [], intent_from, untrusted=untrusted)
    request = replace(asked, allow_change=tuple(allow_change or ()))
    with plan_dependencies(settings, planner=model, ask_person=terminal_prompt()) as shop:
        made = draft_plan(shop, request)
        agreed = _shown(shop, request, made, yes=yes or dry_run, as_json=as_json)
        if dry_run:
            if as_json:
                print_json({"status": "planned", "plan": {"id": made.id, "steps": _steps(made)}})
            return
        if agreed is None:
            raise HarnessError("not run: nobody agreed to the plan")
        _run(shop, agreed, made, as_json=as_json)


@app.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Decided ones too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List what waits for a person, the newest first."""
    from flows.audit.approval_text import approval_json, headline
    from flows.config.settings import load_settings
    from flows.plans.dependencies import plan_dependencies

    with plan_dependencies(load_settings()) as shop:
        found = shop.approvals.list(pending=not everything)
    if as_json:
        print_json([approval_json(one) for one in found])
    elif not found:
        print_line("nothing waits for an approval")
    else:
        rows = [(one.id, one.run_id, one.status, headline(one)[:90]) for one in found]
        print_table(("approval", "run", "status", "action"), rows)


@app.command("show")
def show_(approval: Approval, as_json: AsJson = False) -> None:
    """Show one: what would be done, which rule stopped it, and what led there."""
    from flows.audit.approval_text import approval_json, full_text
    from flows.config.settings import load_settings
    from flows.plans.dependencies import plan_dependencies

    with plan_dependencies(load_settings()) as shop:
        found = shop.approvals.get(approval)
    print_result(
        approval_json(found), "\n".join((f"{found.id}: {found.status}", *full_text(found))), as_json
    )


@app.command("approve")
def approve(
    approval: Approval,
    reason: Annotated[str, typer.Option(help="Kept with the decision.")] = "",
    as_json: AsJson = False,
) -> None:
    """Allow this one action once; what waits in Prefect goes on, a run of yours is resumed."""
    _decide(approval, "approved", reason=reason, as_json=as_json)


@app.command("deny")
def deny(
    approval: Approval,
    reason: Annotated[str, typer.Option(help="Told in the report.")] = "",
    as_json: AsJson = False,
) -> None:
    """Refuse this action; the run goes on without it."""
    _decide(approval, "denied", reason=reason, as_json=as_json)


@app.command("answer")
def answer(
    approval: Approval,
    words: Annotated[str, typer.Argument(help="Your own words; they are trusted.")],
    as_json: AsJson = False,
) -> None:
    """Answer a question that a plan asks you; the plan goes on."""
    _decide(approval, "approved", reason=words, as_json=as_json)


def _decide(approval: str, status: "ApprovalStatus", *, reason: str, as_json: bool) -> None:
    from flows.approval_decided import after_decision_line, resume_flow_run
    from flows.audit.approval_text import approval_json
    from flows.config.settings import load_settings
    from flows.plans.dependencies import plan_dependencies
    from flows.plans.run_in_prefect import run_plan_in_prefect

    settings = load_settings()
    with plan_dependencies(settings, ask_person=terminal_prompt()) as shop:
        decided = shop.approvals.decide(approval, status, by=user_name(), reason=reason)
        then = resume_flow_run(shop, settings, decided)
        if then == "here" and not decided.node:
            _tell(run_plan_in_prefect(shop, settings, decided.run_id), as_json=as_json)
            return
    line = f"{decided.id}: {decided.status}; {after_decision_line(decided, then, settings)}"
    print_result(approval_json(decided), line, as_json)


def _request(
    prompt: str, repo: str, grants: list[str], intent_from: Path | None, *, untrusted: bool
) -> "PlanRequest":
    from flows.plans.request import PlanRequest

    if not prompt.strip():
        raise OptionInvalid("the prompt is empty: say what you want")
    text = read_intent(intent_from, untrusted=untrusted)
    granted = frozenset(grants)
    if intent_from is not None and untrusted:
        return PlanRequest(
            prompt=prompt, repo=repo, grants=granted, intent=text, intent_from=intent_from.name
        )
    words = "\n\n".join(part for part in (prompt, text) if part)
    return PlanRequest(prompt=words, repo=repo, grants=granted)


def _shown(
    shop: "PlanDependencies", request: "PlanRequest", made: "Plan", *, yes: bool, as_json: bool
) -> "PlanRequest | None":
    """Show the plan and have it agreed on; whoever agrees also grants what it needs."""
    from flows.plans.report import plan_lines
    from flows.plans.run import missing_grants

    for line in plan_lines(made):
        (print_message if as_json else print_line)(line)
    missing = missing_grants(shop, request, made)
    if missing:
        print_message(f"needs {', '.join(sorted(missing))}, which you have not granted")
    if yes:
        return request
    if not sys.stdin.isatty():
        raise OptionInvalid("nobody is there to agree to the plan: look at it with --dry-run, "
                            "then give --yes, and --grant CAP for what it needs")  # fmt: skip
    also = f" and grant {', '.join(sorted(missing))}" if missing else ""
    if not confirm(f"run it{also}?"):
        return None
    return request.with_grants(missing)


def _run(shop: "PlanDependencies", request: "PlanRequest", made: "Plan", *, as_json: bool) -> None:
    from flows.config.settings import load_settings
    from flows.plans.run import record_agreed_plan
    from flows.plans.run_in_prefect import run_plan_in_prefect
    from flows.runs.request import new_run_id

    run_id = new_run_id()
    record_agreed_plan(shop, run_id, request, made)
    person = terminal_approver(shop.approvals) if sys.stdin.isatty() else None
    _tell(run_plan_in_prefect(shop, load_settings(), run_id, person), as_json=as_json)


def _tell(report: "PlanReport", *, as_json: bool) -> None:
    from nodes.text import escape_invisible

    if as_json:
        print_json(report.as_json())
    else:
        print_line(f"plan {report.run_id}: {report.status}")
        for step in report.steps:
            told = escape_invisible(" ".join(part for part in (step.rule, step.reason) if part))
            print_line(f"  {step.index} {step.op}: {step.status}{f' ({told})' if told else ''}")
            if step.provenance:
                print_line(f"    it came this way: {escape_invisible(' → '.join(step.provenance))}")
        for name in report.approvals:
            print_line(f"waits: harness approvals show {name}")
    if report.status != "success":
        raise typer.Exit(EXIT_WAITING if report.status == "waiting" else 1)


def _steps(made: "Plan") -> object:
    from policy.plan.registry import plain_json

    return plain_json(made.as_json())
