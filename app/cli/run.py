"""`harness run`: ask, check, watch, tell. The rooms below are imported when a run is asked for."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from app.terminal.files import read_intent
from app.terminal.options import AllowChange
from app.terminal.output import print_json, print_line, print_message
from app.terminal.present import print_report
from contracts.errors import HarnessError, Interrupted, OptionInvalid, RunNotFound
from contracts.run import RunReport
from flows.runs.fields import DESCRIPTIONS

if TYPE_CHECKING:
    from flows.config.settings import Settings
    from flows.runs.request import ResolvedRequest

_EXITS = {"cancelled": 130, "waiting": 4}
"""Exit codes of runs that did not succeed; of others 1."""


@contextmanager
def _before_it_begins() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted("interrupted before the run began") from error


@_before_it_begins()
def run(
    blueprint: Annotated[str, typer.Argument(help=DESCRIPTIONS["blueprint"])],
    repo: Annotated[str, typer.Option(help=DESCRIPTIONS["repo"])] = ".",
    intent: Annotated[str, typer.Option(help=DESCRIPTIONS["intent"])] = "",
    intent_from: Annotated[
        Path | None, typer.Option(help="A file with the intent, such as an issue.")
    ] = None,
    untrusted: Annotated[
        bool, typer.Option("--untrusted", help="The file of --intent-from is not your own text.")
    ] = False,
    ref: Annotated[str, typer.Option(help=DESCRIPTIONS["ref"])] = "",
    agent: Annotated[str, typer.Option(help=DESCRIPTIONS["agent"])] = "configured",
    model: Annotated[str, typer.Option(help=DESCRIPTIONS["model"])] = "",
    push: Annotated[bool, typer.Option("--push", help=DESCRIPTIONS["push"])] = False,
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help=DESCRIPTIONS["options"]),
    ] = None,
    budget_usd: Annotated[float | None, typer.Option(help=DESCRIPTIONS["budget_usd"])] = None,
    user: Annotated[str, typer.Option(help=DESCRIPTIONS["user"])] = "",
    company: Annotated[str, typer.Option(help=DESCRIPTIONS["company"])] = "",
    allow_change: AllowChange = None,
    wait_approvals: Annotated[
        float | None, typer.Option(metavar="SECONDS", help=DESCRIPTIONS["wait_approvals_s"])
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Start it and return.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    run_id: Annotated[str | None, typer.Option(hidden=True)] = None,
    whole_intent: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run a blueprint on a repository; the work ends on a branch of it."""
    from blueprints.find import find_blueprint
    from flows.config.resolve import resolve_request
    from flows.config.settings import load_settings
    from flows.runs.request import RunRequest, new_run_id

    settings = load_settings()
    if whole_intent is None:
        text = read_intent(intent_from, untrusted=untrusted)
        whole = "\n\n".join(part for part in (intent, text) if part)
    else:
        whole = _taken(whole_intent)
    given = RunRequest.of(
        blueprint=blueprint,
        repo=repo,
        intent=whole,
        intent_from=f"file:{intent_from.name}" if intent_from and untrusted else "",
        ref=ref,
        agent=agent,
        model=model,
        push=push,
        budget_usd=budget_usd,
        options=_pairs(options or []),
        user=user,
        company=company,
        allow_change=allow_change or [],
        wait_approvals_s=wait_approvals,
    )
    request = resolve_request(given, find_blueprint(blueprint, repo=repo), settings)
    run_request(
        request, settings, run_id or new_run_id(settings.runs), detach=detach, as_json=as_json
    )


@_before_it_begins()
def run_request(
    request: "ResolvedRequest",
    settings: "Settings",
    run_id: str,
    *,
    as_json: bool,
    detach: bool = False,
    flow_run_id: str | None = None,
) -> None:
    """Check, then run here or start a process of its own; exits 1 when the run failed.

    `flow_run_id` is of a run that goes on: it is checked where its own secrets are set.
    """
    from flows.execution.wiring import build_dependencies
    from flows.runs.home import create_home

    create_home(settings.home)
    for notice in (
        build_dependencies(settings).check_request(request) if flow_run_id is None else ()
    ):
        print_message(f"note: {notice}")
    if detach:
        _detach(run_id, request.intent, settings, as_json=as_json)
        return
    report = _watched(request, settings, run_id, flow_run_id, as_json=as_json)
    _tell(report, as_json=as_json)
    if report.status != "success":
        raise typer.Exit(_EXITS.get(report.status, 1))


def _watched(
    request: "ResolvedRequest",
    settings: "Settings",
    run_id: str,
    flow_run_id: str | None,
    *,
    as_json: bool,
) -> RunReport:
    from app.terminal.live import live_view
    from flows.orchestration.start import run_in_prefect
    from flows.runs.addresses import without_password
    from flows.runs.run_record import read_record

    title = f"{request.definition.name} {run_id} on {without_password(request.repo)}"
    try:
        with live_view(title, quiet=as_json) as watch:
            return run_in_prefect(
                request,
                settings,
                run_id=run_id,
                watch=watch,
                flow_run_id=flow_run_id,
                tell=lambda line: print_message(f"note: {line}"),
            )
    except HarnessError as error:
        _give_up(error, settings, run_id, as_json=as_json)
    except KeyboardInterrupt as error:
        if read_record(settings.runs / run_id) is None:
            raise
        look = f"`harness runs show {run_id}` tells how far the run came"
        raise Interrupted(f"interrupted: {look}") from error


def _give_up(error: HarnessError, settings: "Settings", run_id: str, *, as_json: bool) -> NoReturn:
    """Tell what the run could still report before an outage ended it."""
    from flows.runs.runs import read_report

    try:
        report = read_report(settings.runs, run_id)
    except RunNotFound:
        raise error from None
    print_message(f"error: {error}")
    _tell(report, as_json=as_json)
    raise typer.Exit(error.exit_code) from error


def _tell(report: RunReport, *, as_json: bool) -> None:
    from flows.runs.report import to_json

    if as_json:
        print_json(to_json(report))
    else:
        print_report(report)


def _detach(run_id: str, intent: str, settings: "Settings", *, as_json: bool) -> None:
    """The same command line once more, in a process that outlives this one.

    It is handed the intent: a pipe that it came from is empty now, a file may be gone.
    """
    from flows.services.detached import start_detached

    log = settings.home / "logs" / f"{run_id}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    handed = log.with_suffix(".intent")
    handed.touch(mode=0o600)
    handed.write_bytes(intent.encode())
    again = [part for part in sys.argv[1:] if part not in ("--detach", "--json")]
    at = again.index("run") + 1  # what stands behind a `--` is no option
    ours = ("--run-id", run_id, "--whole-intent", str(handed))
    argv = (sys.executable, "-P", "-m", "app", *again[:at], *ours, *again[at:])
    start_detached(argv, cwd=Path.cwd(), log=log)
    if as_json:
        print_json({"run_id": run_id, "log": str(log)})
    else:
        print_line(f"started {run_id}; see `harness runs show {run_id}` and {log}")


def _taken(handed: Path) -> str:
    text = handed.read_bytes().decode()
    handed.unlink()
    return text


def _pairs(given: list[str]) -> dict[str, str]:
    for text in given:
        if "=" not in text:
            raise OptionInvalid(f"--set wants NAME=VALUE, got {text!r}")
    return dict(text.split("=", 1) for text in given)
