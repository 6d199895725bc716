"""`harness up`, `down`, `doctor`, `demo`: what Harness keeps on this machine."""

import typer

from app.terminal.options import AsJson
from app.terminal.output import print_json, print_line, print_message
from app.terminal.present import print_table

EXIT_UNAVAILABLE = 3


def up(as_json: AsJson = False) -> None:
    """Start what runs from Prefect need: server, worker, deployments; what is there stays."""
    from flows.config.settings import load_settings
    from flows.host.local_stack import StackMember, bring_up
    from flows.runs.home import create_home

    settings = load_settings()
    create_home(settings.home)

    def tell(member: StackMember) -> None:
        if not as_json:
            print_line(f"{member.name}: {member.url or member.note or 'ok'} ({member.state})")
        if member.url and member.note:
            print_message(f"note: {member.note}")
        if member.state == "outdated":
            print_message(
                f"note: {member.name} is at work; `harness up` replaces it once it is not"
            )

    members = bring_up(settings, tell)
    if as_json:
        print_json([member._asdict() for member in members])


def down(as_json: AsJson = False) -> None:
    """Stop what `harness up` started; runs, reports and the server's database stay."""
    from flows.config.settings import load_settings
    from flows.host.local_stack import take_down
    from flows.runs.home import check_home

    settings = load_settings()
    check_home(settings.home)
    stopped = take_down(settings)
    if as_json:
        print_json([member._asdict() for member in stopped])
    else:
        names = ", ".join(member.name for member in stopped)
        print_line(f"stopped: {names}" if names else "nothing of ours was running")


def doctor(as_json: AsJson = False) -> None:
    """Check everything that a run needs; exits 3 when something is missing."""
    from app.doctor import check_requirements

    checks = check_requirements()
    if as_json:
        print_json([check._asdict() for check in checks])
    else:
        print_table(
            ("what", "state", "found"),
            [(f.what, "ok" if f.ok else "MISSING", f.found) for f in checks],
        )
    if not all(check.ok for check in checks):
        raise typer.Exit(EXIT_UNAVAILABLE)


def demo(as_json: AsJson = False) -> None:
    """Run fix-tests on a small repository whose test fails, and show what came of it."""
    from app.cli.run import run_request
    from app.demo.request import demo_request, make_repository
    from flows.config.settings import load_settings
    from flows.runs.home import create_home
    from flows.runs.request import new_run_id

    settings = load_settings()
    create_home(settings.home)
    run_id = new_run_id(settings.runs)
    repository = make_repository(settings.home / "demo" / run_id / "opening-hours")
    request = demo_request(repository, settings)
    print_message(f"a repository with a failing test is in {repository}; model: {request.model}")
    run_request(request, settings, run_id, as_json=as_json)
