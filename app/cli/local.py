"""`harness up`, `down`, `doctor`, `demo` and `ui`: Harness on this machine."""

from typing import Annotated

import typer

from app.terminal.options import AsJson
from app.terminal.output import print_json, print_line, print_message, print_table
from flows.config.settings import load_settings
from flows.host.local_stack import StackMember, bring_up, take_down
from flows.runs.home import check_home, create_home

EXIT_UNAVAILABLE = 3


def up(as_json: AsJson = False) -> None:
    """Start server, gateway, worker and pages, and deploy; running processes are left alone."""
    settings = load_settings()
    create_home(settings.home)

    def report(member: StackMember) -> None:
        if not as_json:
            print_line(f"{member.name}: {member.url or member.note or 'ok'} ({member.state})")
        if member.url and member.note:
            print_message(f"note: {member.note}")
        if member.state == "outdated":
            print_message(
                f"note: {member.name} has active runs: `harness up` replaces it when they are done"
            )

    members = bring_up(settings, report)
    if as_json:
        print_json([member._asdict() for member in members])


def down(as_json: AsJson = False) -> None:
    """Stop what `harness up` started; runs, reports and the server's database stay."""
    settings = load_settings()
    check_home(settings.home)
    stopped = take_down(settings)
    if as_json:
        print_json([member._asdict() for member in stopped])
    else:
        names = ", ".join(member.name for member in stopped)
        print_line(f"stopped: {names}" if names else "no process of this home was running")


def doctor(as_json: AsJson = False) -> None:
    """Check everything that a run needs; exits with 3 if something is missing."""
    from app.doctor import check_requirements

    checks = check_requirements()
    if as_json:
        print_json([check._asdict() for check in checks])
    else:
        rows = [(check.what, "ok" if check.ok else "MISSING", check.found) for check in checks]
        print_table(("what", "state", "found"), rows)
    if not all(check.ok for check in checks):
        raise typer.Exit(EXIT_UNAVAILABLE)


def demo(as_json: AsJson = False) -> None:
    """Run fix-tests on a small repository with a failing test, and show the report."""
    from app.cli.run import run_request
    from app.demo.request import demo_request, make_repository
    from flows.runs.request import new_run_id

    settings = load_settings()
    create_home(settings.home)
    run_id = new_run_id(settings.runs)
    repository = make_repository(settings.home / "demo" / run_id / "opening-hours")
    request = demo_request(repository, settings)
    print_message(f"demo repository: {repository}; model: {request.model}")
    run_request(request, settings, run_id, as_json=as_json)


def ui(
    host: Annotated[
        str | None, typer.Option(help="Address; one other than loopback requires a token.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0 takes any free port.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Serve the pages for runs, approvals and memory until Ctrl-C."""
    from app.web.serve import PagesAddress, pages_address, serve

    def ready(address: PagesAddress) -> None:
        if as_json:
            print_json({"url": address.url})
        else:
            print_message(f"pages: {address.url} (Ctrl-C stops them)")

    options = {"host": host, "port": port}
    update = {name: value for name, value in options.items() if value is not None}
    serve(pages_address(load_settings().ui.model_copy(update=update)), ready)
