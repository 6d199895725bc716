"""`harness plan` and `harness repl`: make, run and manage plans."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Context
from typer.core import TyperGroup

from app.cli.request_options import AllowChange
from app.terminal.files import read_intent
from app.terminal.options import MAX_ROWS, AsJson
from app.terminal.output import (
    print_json,
    print_line,
    print_message,
    print_result,
    print_table,
)
from app.terminal.prompts import confirm, terminal_approver, terminal_prompt
from app.terminal.views import view_text
from contracts.errors import HarnessError, OptionInvalid
from flows.config.settings import load_settings
from flows.plans.dependencies import plan_dependencies
from flows.plans.manage import cancel_plan, check_resumable, find_plan, list_plans, plan_diff
from flows.plans.report import PlanReport, plan_lines
from flows.plans.request import PlanRequest
from flows.plans.run import PlanDependencies, draft_plan, missing_grants, record_agreed_plan
from flows.plans.start import run_plan_in_prefect
from flows.plans.state import plan_json, plan_state
from flows.plans.view import plan_view
from flows.runs.request import new_run_id
from flows.runs.request_checks import check_patterns
from nodes.text import check_text, escape_invisible
from policy.plan.registry import plain_json
from policy.types import Plan

PlanId = Annotated[str, typer.Argument(help="A plan id, or the beginning of one.")]
Repo = Annotated[str, typer.Option(help="Folder, git repository or URL to work on.")]
Planner = Annotated[
    str | None, typer.Option(help="Model that makes plans; scripted/FILE replays replies.")
]
EXIT_WAITING = 4


class _PlanGroup(TyperGroup):
    """`harness plan PROMPT` is short for `harness plan make PROMPT`."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]  # typer vendors click
        is_known = bool(args) and (args[0] in self.commands or args[0] in ("--help", "-h"))
        return super().parse_args(ctx, args if is_known or not args else ["make", *args])


plans = typer.Typer(cls=_PlanGroup, no_args_is_help=True)


@plans.command("make")
def plan(
    prompt: Annotated[str, typer.Argument(help="What you want, in your own words.")],
    repo: Repo = ".",
    grant: Annotated[
        list[str] | None,
        typer.Option(metavar="CAP", help="Capability to grant, or release:TAG; repeatable."),
    ] = None,
    allow_change: AllowChange = None,
    model: Planner = None,
    intent_from: Annotated[
        Path | None, typer.Option(help="File to work on, such as an issue; - reads stdin.")
    ] = None,
    untrusted: Annotated[
        bool, typer.Option("--untrusted", help="The text of --intent-from is not trusted.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Run the plan without asking for consent.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a plan from a prompt, show it, and run it; the policy checks each step."""
    settings = load_settings()
    check_text("--model", model or "")
    request = _request(
        prompt,
        repo,
        grants=frozenset(grant or ()),
        allow_change=tuple(allow_change or ()),
        intent_from=intent_from,
        untrusted=untrusted,
    )
    with plan_dependencies(settings, planner=model, ask_person=terminal_prompt()) as dependencies:
        made = draft_plan(dependencies, request)
        agreed = _consent(dependencies, request, made, yes=yes or dry_run, as_json=as_json)
        if dry_run:
            if as_json:
                steps = plain_json(made.as_json())
                print_json({"status": "planned", "plan": {"id": made.id, "steps": steps}})
            return
        if agreed is None:
            raise HarnessError("the plan was not run: you did not agree to it")
        run_id = new_run_id()
        record_agreed_plan(dependencies, run_id, agreed, made)
        approver = terminal_approver(dependencies.approvals) if sys.stdin.isatty() else None
        report = run_plan_in_prefect(dependencies, settings, run_id, approver)
    print_plan_report(report, as_json=as_json)


@plans.command("list")
def list_plans_(
    limit: Annotated[int, typer.Option(min=1, max=MAX_ROWS, help="Maximum of plans.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List plans, newest first."""
    with plan_dependencies(load_settings()) as dependencies:
        found = list_plans(dependencies, limit=limit)
    if as_json:
        print_json([asdict(one) for one in found])
    elif not found:
        print_line("no plans yet: make one with `harness plan PROMPT`")
    else:
        rows = [
            (
                one.run_id,
                one.started_at,
                one.status,
                str(one.steps),
                escape_invisible(one.prompt)[:60],
            )
            for one in found
        ]
        print_table(("plan", "started", "status", "steps", "prompt"), rows)


@plans.command("show")
def show_plan(plan_id: PlanId, as_json: AsJson = False) -> None:
    """Show a plan: its steps and their outcomes, questions and answers, decisions and events."""
    with plan_dependencies(load_settings()) as dependencies:
        run_id = find_plan(dependencies, plan_id)
        if as_json:
            print_json(plan_json(plan_state(dependencies, run_id)))
        else:
            print_line(view_text(plan_view(dependencies, run_id)).rstrip())


@plans.command("resume")
def resume_plan(plan_id: PlanId, as_json: AsJson = False) -> None:
    """Continue a waiting or lost plan; no finished step is repeated."""
    settings = load_settings()
    with plan_dependencies(settings, ask_person=terminal_prompt()) as dependencies:
        run_id = find_plan(dependencies, plan_id)
        check_resumable(plan_state(dependencies, run_id))
        approver = terminal_approver(dependencies.approvals) if sys.stdin.isatty() else None
        report = run_plan_in_prefect(dependencies, settings, run_id, approver)
    print_plan_report(report, as_json=as_json)


@plans.command("cancel")
def cancel(plan_id: PlanId, as_json: AsJson = False) -> None:
    """Stop a plan that is not over, and deny its pending approvals."""
    settings = load_settings()
    with plan_dependencies(settings) as dependencies:
        state = cancel_plan(dependencies, settings, find_plan(dependencies, plan_id))
    line = f"plan {state.report.run_id} is {state.report.status}"
    print_result(plan_json(state), line, as_json)


@plans.command("diff")
def diff(old: PlanId, new: PlanId, as_json: AsJson = False) -> None:
    """Compare the prompts and the steps of two plans."""
    with plan_dependencies(load_settings()) as dependencies:
        one, other = (plan_state(dependencies, find_plan(dependencies, p)) for p in (old, new))
    text = plan_diff(one, other)
    document = {"old": one.report.run_id, "new": other.report.run_id, "diff": text}
    print_result(document, text or "the same steps for the same prompt", as_json)


def repl(
    repo: Repo = ".",
    grant: Annotated[
        list[str] | None,
        typer.Option(metavar="CAP", help="Capability to grant to every plan; repeatable."),
    ] = None,
    allow_change: AllowChange = None,
    model: Planner = None,
) -> None:
    """Type prompts, and watch plans, approvals and events live; `:help` lists the commands."""
    from rich.console import Console

    from app.repl import Repl

    check_patterns(allow_change or ())
    settings = load_settings()
    with plan_dependencies(settings, planner=model) as dependencies:
        Repl(
            dependencies=dependencies,
            settings=settings,
            console=Console(highlight=False, markup=False, emoji=False, soft_wrap=True),
            repo=repo,
            grants=frozenset(grant or ()),
            allow_change=tuple(allow_change or ()),
        ).loop(sys.stdin)


def _request(
    prompt: str,
    repo: str,
    *,
    grants: frozenset[str],
    allow_change: tuple[str, ...],
    intent_from: Path | None,
    untrusted: bool,
) -> PlanRequest:
    if not prompt.strip():
        raise OptionInvalid("the prompt is empty: describe what you want")
    text = read_intent(intent_from, untrusted=untrusted)
    apart = intent_from is not None and untrusted
    return PlanRequest(
        prompt=prompt if apart else "\n\n".join(filter(None, (prompt, text))),
        repo=repo,
        grants=grants,
        allow_change=allow_change,
        intent=text if apart else None,
        intent_from=intent_from.name if apart and intent_from else "",
    )


def _consent(
    dependencies: PlanDependencies, request: PlanRequest, made: Plan, *, yes: bool, as_json: bool
) -> PlanRequest | None:
    """Show the plan and ask for consent, which grants the missing capabilities; None means no."""
    for line in plan_lines(made):
        (print_message if as_json else print_line)(line)
    missing = missing_grants(dependencies, request, made)
    if missing:
        print_message(f"needs {', '.join(sorted(missing))}, which you have not granted")
    if yes:
        return request
    if not sys.stdin.isatty():
        raise OptionInvalid("no terminal to ask for consent: look at the plan with --dry-run, "
                            "then add --yes, and --grant CAP for each capability")  # fmt: skip
    grant = f" and grant {', '.join(sorted(missing))}" if missing else ""
    if not confirm(f"run it{grant}?"):
        return None
    return request.with_grants(missing)


def print_plan_report(report: PlanReport, *, as_json: bool) -> None:
    """Print how a plan ended, and exit with 1 if it failed and 4 if it waits."""
    if as_json:
        print_json(report.as_json())
    else:
        _print_report_lines(report)
    if report.status != "success":
        raise typer.Exit(EXIT_WAITING if report.status == "waiting" else 1)


def _print_report_lines(report: PlanReport) -> None:
    print_line(f"plan {report.run_id}: {report.status}")
    if report.flow_run_url:
        print_line(f"in Prefect: {report.flow_run_url}")
    for step in report.steps:
        why = escape_invisible(" ".join(part for part in (step.rule, step.reason) if part))
        print_line(f"  {step.index} {step.op}: {step.status}{f' ({why})' if why else ''}")
        if step.provenance:
            path = " → ".join(step.provenance)
            print_line(f"    untrusted text came from: {escape_invisible(path)}")
    for name in report.approvals:
        print_line(f"waiting: harness approvals show {name}")
