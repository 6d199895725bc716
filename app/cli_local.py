"""`harness up`, `down`, `doctor`, `demo`: what Harness keeps on this machine."""

from typing import Annotated

import typer

from app.present import show_table
from app.terminal import say, show, show_json

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

NOT_AVAILABLE = 3


def up() -> None:
    """Start what runs share: Prefect server, unless one is configured, gateway, warm sandboxes."""
    from flows import gateway, local, pool
    from flows.settings import load_settings

    settings = load_settings()
    api = local.api_url(settings)
    show(f"Prefect: {local.ui_url(api)}")
    show(f"gateway: {gateway.up(settings).url}")
    show(f"warm sandboxes: {pool.up(settings)}")


def down() -> None:
    """Stop what `harness up` started; runs and their reports stay."""
    from flows import gateway, local, pool
    from flows.settings import load_settings

    settings = load_settings()
    pool.down(settings)
    for what, stopped in (
        ("local Prefect server", local.down(settings)),
        ("gateway to models", gateway.down(settings)),
    ):
        show(f"the {what} is stopped" if stopped else f"no {what} was running")


def doctor(as_json: AsJson = False) -> None:
    """Check everything that a run needs; exits 3 when something is missing."""
    from app.checkup import checkup

    findings = checkup()
    if as_json:
        show_json([finding._asdict() for finding in findings])
    else:
        show_table(
            ("what", "state", "found"),
            [(f.what, "ok" if f.ok else "MISSING", f.found) for f in findings],
        )
    if not all(finding.ok for finding in findings):
        raise typer.Exit(NOT_AVAILABLE)


def demo(as_json: AsJson = False) -> None:
    """Run fix-tests on a small repository whose test fails, and show what came of it."""
    from app.cli_run import run_request
    from app.demo.request import demo_request, make_repository
    from flows.request import new_run_id
    from flows.settings import load_settings

    settings = load_settings()
    run_id = new_run_id()
    repository = make_repository(settings.home / "demo" / run_id / "opening-hours")
    request = demo_request(repository, settings)
    say(f"a repository with a failing test is in {repository}; model: {request.model}")
    run_request(request, settings, run_id, detach=False, as_json=as_json)
