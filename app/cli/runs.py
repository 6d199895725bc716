"""`harness runs`: what ran, what it said, what it changed."""

import sys
from dataclasses import asdict
from pydoc import pager
from typing import Annotated

import typer

from app.terminal.identity import user_name
from app.terminal.options import MAX_ROWS, AsJson
from app.terminal.output import print_bytes, print_json, print_line
from app.terminal.present import print_report, print_table

Run = Annotated[str, typer.Argument(help="A run id, or the beginning of one.")]

app = typer.Typer(help="What ran, what it said, what it changed.", no_args_is_help=True)


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(min=1, max=MAX_ROWS, help="The newest so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    from flows.config.settings import load_settings
    from flows.runs.runs import list_runs

    entries = list_runs(load_settings().runs, limit=limit)
    if as_json:
        print_json([asdict(entry) for entry in entries])
    elif not entries:
        print_line(
            "no runs yet: `harness run fix-tests --repo …` starts one, `harness demo` shows one"
        )
    else:
        print_table(
            ("run", "started", "state", "blueprint", "repo"),
            [(e.run_id, e.started_at, e.state, e.blueprint, e.repo) for e in entries],
        )


@app.command("show")
def show_(
    run: Run,
    trajectory: Annotated[
        bool, typer.Option("--trajectory", help="All that was said to models, page by page.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the report of one run, or what was said in it."""
    if trajectory:
        _show_trajectory(run, as_json=as_json)
        return
    from flows.config.settings import load_settings
    from flows.runs.report import to_json
    from flows.runs.runs import read_report

    report = read_report(load_settings().runs, run)
    if as_json:
        print_json(to_json(report))
    else:
        print_report(report)


@app.command("resume")
def resume(run: Run, as_json: AsJson = False) -> None:
    """Go on with a run that stopped, where it stopped and in the same files."""
    from app.cli.run import run_request
    from flows.config.settings import load_settings
    from flows.runs.resume import find_resumable

    settings = load_settings()
    found = find_resumable(settings.runs, run)
    run_request(
        found.request, settings, found.run_id, as_json=as_json, flow_run_id=found.flow_run_id
    )


@app.command("cancel")
def cancel(run: Run, as_json: AsJson = False) -> None:
    """End a run that is queued, running or waits for a person; its work so far is on its branch."""
    from flows.config.settings import load_settings
    from flows.orchestration.cancel import cancel_any_run as cancel_run

    entry = cancel_run(load_settings(), run)
    if as_json:
        print_json(asdict(entry))
        return
    where = f"; its work so far is on {entry.branch}" if entry.branch else ""
    print_line(f"run {entry.run_id} is {entry.state}{where}")


@app.command("prune")
def prune(
    older_than: Annotated[str, typer.Option(help="As 24h, 7d or 2w.")] = "30d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove what did not win in a run, and commits that no run needs to go on."""
    from datetime import UTC, datetime

    from flows.config.settings import load_settings
    from flows.execution.prune import prune as prune_runs
    from flows.recall.curation import parse_age

    before = parse_age(older_than, datetime.now(UTC), option="--older-than")
    gone = prune_runs(load_settings(), before, dry_run=dry_run)
    if as_json:
        print_json([{**branch._asdict(), "repository": str(branch.repository)} for branch in gone])
        return
    for branch in gone:
        print_line(
            f"{'would remove' if dry_run else 'removed'} {branch.branch} of {branch.repository}"
        )
    if not gone:
        print_line(f"nothing that can go was last used more than {older_than} ago")


@app.command("replay")
def replay(run: Run, as_json: AsJson = False) -> None:
    """Do a run again from its trajectory, with no model; exits 1 when it ends differently."""
    from app.terminal.live import live_view
    from flows.config.settings import load_settings
    from flows.execution.replay import replay as replayed
    from flows.execution.wiring import build_dependencies
    from nodes.text import escape_invisible, strip_control_characters

    settings = load_settings()
    with live_view(f"replay of {run}", quiet=as_json) as watch:
        done = replayed(settings.runs, run, lambda t: build_dependencies(settings, replay=t), watch)
    if as_json:
        print_json(asdict(done))
    elif done.same:
        print_line(f"the same steps, and the same tree {done.tree[:12]}")
    else:
        print_line(strip_control_characters(str(done.difference or "the same steps")))
        files = ", ".join(map(escape_invisible, done.files))
        print_line(f"another tree: {files}" if files else "the same tree")
    if not done.same:
        raise typer.Exit(1)


@app.command("diff")
def diff(run: Run, as_json: AsJson = False) -> None:
    """Print what a run changed, as a patch."""
    from flows.config.settings import load_settings
    from flows.runs.report import to_json
    from flows.runs.runs import read_diff, read_report
    from nodes.text import strip_control_characters

    runs = load_settings().runs
    patch = read_diff(runs, run)
    if as_json:
        report = to_json(read_report(runs, run))
        of_it = ("run_id", "branch", "base_commit", "commit", "diff_stat")
        print_json({**{name: report[name] for name in of_it}, "diff": patch})
        return
    if sys.stdout.isatty():
        print_line(strip_control_characters(patch.removesuffix("\n")))
    else:
        print_bytes(patch.encode("utf-8", "surrogateescape"))


@app.command("rate")
def rate(
    run: Run,
    score: Annotated[int, typer.Argument(help="0 is useless, 100 is perfect.")],
    as_json: AsJson = False,
) -> None:
    """Say how good a run was; what is over 80 may teach notes and examples."""
    from flows.recall.rate import rate_run

    rating, look, why = rate_run(run, score, by=user_name())
    if as_json:
        print_json({**rating._asdict(), "look": look, "why": why})
        return
    print_line(f"run {rating.run_id} is rated {rating.score}")
    if why:
        print_line(why)


def _show_trajectory(run: str, *, as_json: bool) -> None:
    from flows.config.settings import load_settings
    from flows.runs.layout import TRAJECTORY
    from flows.runs.runs import find_run
    from nodes.text import strip_control_characters
    from providers.read_trajectory import event_line, read_trajectory

    path = find_run(load_settings().runs, run) / TRAJECTORY
    events = read_trajectory(path) if path.exists() else iter(())
    if as_json:
        print_json(list(events))
    elif sys.stdout.isatty():
        pager("\n".join(strip_control_characters(event_line(event)) for event in events))
    else:
        for event in events:
            print_line(strip_control_characters(event_line(event)))
