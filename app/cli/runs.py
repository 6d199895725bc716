"""`harness runs`: list, inspect, resume and cancel runs."""

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pydoc import pager
from typing import Annotated

import typer

from app.terminal.identity import user_name
from app.terminal.options import MAX_ROWS, AsJson
from app.terminal.output import (
    print_bytes,
    print_json,
    print_line,
    print_message,
    print_report,
    print_result,
    print_table,
)
from contracts.errors import HarnessError
from flows.config.settings import Settings, load_settings
from flows.plans.dependencies import plan_dependencies
from flows.plans.manage import list_plans
from flows.runs.home import TRAJECTORY
from flows.runs.report import to_json
from flows.runs.request import repo_name
from flows.runs.runs import find_resumable, find_run, list_runs, read_diff, read_report
from nodes.text import escape_invisible, strip_control_characters
from providers.trajectory import event_line, read_trajectory

Run = Annotated[str, typer.Argument(help="A run id, or the beginning of one.")]

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(min=1, max=MAX_ROWS, help="Maximum of runs.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs of blueprints and plans, newest first."""
    settings = load_settings()
    runs = [{"kind": "run", **asdict(entry)} for entry in list_runs(settings.runs, limit=limit)]
    plans = _listed_plans(settings, limit)
    both = sorted((*runs, *plans), key=lambda one: str(one["started_at"]), reverse=True)[:limit]
    if as_json:
        print_json(both)
    elif not both:
        print_line("no runs yet: start one with `harness run fix-tests --repo …` or `harness demo`")
    else:
        columns = ("run_id", "kind", "started_at", "state", "blueprint")
        rows = [
            (*(str(one[column]) for column in columns), repo_name(str(one["repo"]))) for one in both
        ]
        print_table(("run", "kind", "started", "state", "blueprint", "repo"), rows)


@app.command("show")
def show(
    run: Run,
    trajectory: Annotated[
        bool, typer.Option("--trajectory", help="Show the conversation with models instead.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the report of one run, or its conversation with models."""
    if trajectory:
        _show_trajectory(run, as_json=as_json)
        return
    report = read_report(load_settings().runs, run)
    if as_json:
        print_json(to_json(report))
    else:
        print_report(report)


@app.command("resume")
def resume(run: Run, as_json: AsJson = False) -> None:
    """Continue a stopped run where it stopped, or one whose pull request got a comment."""
    from app.cli.run import run_request
    from flows.execution.kept_runs import reopen
    from flows.execution.wiring import build_dependencies

    settings = load_settings()
    reopen(build_dependencies(settings), find_run(settings.runs, run).name)
    found = find_resumable(settings.runs, run)
    run_request(
        found.request, settings, found.run_id, as_json=as_json, flow_run_id=found.flow_run_id
    )


@app.command("cancel")
def cancel(run: Run, as_json: AsJson = False) -> None:
    """Stop a queued, running or waiting run; its work so far stays on its branch."""
    from flows.orchestration.cancel import cancel_any_run

    entry = cancel_any_run(load_settings(), run)
    branch = f"; its work so far is on {entry.branch}" if entry.branch else ""
    print_result(asdict(entry), f"run {entry.run_id} is {entry.state}{branch}", as_json)


@app.command("prune")
def prune(
    older_than: Annotated[
        str, typer.Option(help="Minimum time since the last use, such as 24h, 7d or 2w.")
    ] = "30d",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would be removed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove losing branches of `compete` nodes, and commits that no run needs."""
    from flows.execution.prune import prune as prune_runs
    from flows.recall.curation import parse_age

    before = parse_age(older_than, datetime.now(UTC), option="--older-than")
    removed = prune_runs(load_settings(), before, dry_run=dry_run)
    if as_json:
        print_json([{**one._asdict(), "repository": str(one.repository)} for one in removed])
        return
    for one in removed:
        print_line(f"{'would remove' if dry_run else 'removed'} {one.branch} of {one.repository}")
    if not removed:
        print_line(f"nothing to remove that was last used more than {older_than} ago")


@app.command("replay")
def replay(run: Run, as_json: AsJson = False) -> None:
    """Repeat a run with its recorded replies; exits with 1 if steps or files differ."""
    from app.terminal.live import live_view
    from flows.execution.replay import replay as replay_run
    from flows.execution.wiring import build_dependencies

    settings = load_settings()
    with live_view(f"replay of {run}", quiet=as_json) as listener:
        outcome = replay_run(
            settings.runs, run, lambda t: build_dependencies(settings, replay=t), listener
        )
    if as_json:
        differs = outcome.difference
        named = differs and {"step": differs.step, "was": differs.expected, "now": differs.actual}
        print_json({**asdict(outcome), "difference": named})
    elif outcome.same:
        print_line(f"identical steps, and identical files (tree {outcome.tree[:12]})")
    else:
        print_line(strip_control_characters(str(outcome.difference or "identical steps")))
        files = ", ".join(map(escape_invisible, outcome.files))
        print_line(f"different files: {files}" if files else "identical files")
    if not outcome.same:
        raise typer.Exit(1)


@app.command("diff")
def diff(run: Run, as_json: AsJson = False) -> None:
    """Print the changes of a run as a patch."""
    runs = load_settings().runs
    patch = read_diff(runs, run)
    if as_json:
        report = to_json(read_report(runs, run))
        names = ("run_id", "branch", "base_commit", "commit", "diff_stat")
        print_json({**{name: report[name] for name in names}, "diff": patch})
    elif sys.stdout.isatty():
        print_line(strip_control_characters(patch.removesuffix("\n")))
    else:
        print_bytes(patch.encode("utf-8", "surrogateescape"))


@app.command("events")
def events(run: Run, as_json: AsJson = False) -> None:
    """Show all events of one run."""
    from app.cli.events import print_events
    from flows.execution.wiring import open_event_log

    run_id = find_run(load_settings().runs, run).name
    with open_event_log() as log:
        print_events(log.events(run_id), as_json)


@app.command("rate")
def rate(
    run: Run,
    score: Annotated[int, typer.Argument(help="0 is useless, 100 is perfect.")],
    as_json: AsJson = False,
) -> None:
    """Rate a run; a successful run rated above 80 is curated."""
    from flows.recall.curation import rate_run

    rating, look, why = rate_run(run, score, by=user_name())
    line = f"run {rating.run_id} is rated {rating.score}"
    document = {**rating._asdict(), "look": look, "why": why}
    print_result(document, f"{line}\n{why}" if why else line, as_json)


def _listed_plans(settings: Settings, limit: int) -> list[dict[str, object]]:
    try:
        with plan_dependencies(settings) as dependencies:
            found = list_plans(dependencies, limit=limit)
    except HarnessError as error:  # runs are in files: they are listed without the database, too
        print_message(f"note: plans are not listed: {error}")
        return []
    more = {"kind": "plan", "blueprint": ""}
    return [{**more, **asdict(one), "state": one.status, "intent": one.prompt} for one in found]


def _show_trajectory(run: str, *, as_json: bool) -> None:
    path = find_run(load_settings().runs, run) / TRAJECTORY
    found = read_trajectory(path) if path.exists() else iter(())
    if as_json:
        print_json(list(found))
    elif sys.stdout.isatty():
        pager("\n".join(strip_control_characters(event_line(event)) for event in found))
    else:
        for event in found:
            print_line(strip_control_characters(event_line(event)))
