"""`harness run`: checks a request, runs it here or in a background process, prints the report."""

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from app.cli.request_options import (
    AgentName,
    AllowChange,
    BlueprintName,
    BudgetUsd,
    CompanyId,
    Intent,
    McpTools,
    Model,
    Push,
    Ref,
    Repo,
    SetOptions,
    UntilGreen,
    UserId,
    located,
    option_values,
)
from app.terminal.files import read_intent
from app.terminal.live import live_view, waiting_for
from app.terminal.output import print_json, print_line, print_message, print_report
from blueprints.find import find_blueprint
from contracts.errors import HarnessError, Interrupted, RunNotFound, Unavailable
from contracts.run import RunReport
from flows.config.settings import Settings, load_settings
from flows.execution.wiring import build_dependencies, resolve_request
from flows.orchestration.start import run_in_prefect
from flows.runs.home import create_home
from flows.runs.report import to_json
from flows.runs.request import CONFIGURED, ROUNDS, ResolvedRequest, RunRequest, new_run_id
from flows.runs.run_record import read_record
from flows.runs.runs import read_report
from flows.services.daemon import start_detached
from sandbox.redaction import redact_url

_FIELDS = RunRequest.model_fields

EXIT_CODES = {"cancelled": 130, "waiting": 4}
"""Exit codes by the status of an unsuccessful run; 1 for every other status, but 3 if the sandbox
lacked a program."""


def run(
    blueprint: BlueprintName,
    repo: Repo = ".",
    intent: Intent = "",
    intent_from: Annotated[
        Path | None, typer.Option(help="File with the intent, such as an issue; - reads stdin.")
    ] = None,
    untrusted: Annotated[
        bool, typer.Option("--untrusted", help="The text of --intent-from is not trusted.")
    ] = False,
    ref: Ref = "",
    agent: AgentName = CONFIGURED,
    model: Model = "",
    push: Push = False,
    until_green: UntilGreen = ROUNDS,
    options: SetOptions = None,
    good: Annotated[
        str,
        typer.Option(metavar="REF", help="Same as --set good=REF: a commit where the tests pass."),
    ] = "",
    budget_usd: BudgetUsd = None,
    user: UserId = "",
    company: CompanyId = "",
    allow_change: AllowChange = None,
    mcp: McpTools = None,
    wait_approvals: Annotated[
        float | None, typer.Option(metavar="SECONDS", help=_FIELDS["wait_approvals_s"].description)
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Start the run in the background and return.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    run_id: Annotated[str | None, typer.Option(hidden=True)] = None,
    whole_intent: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run a blueprint on a repository; the work ends up on a new branch of the repository."""
    settings = load_settings()
    if whole_intent is None:
        text = read_intent(intent_from, untrusted=untrusted)
        full_intent = "\n\n".join(part for part in (intent, text) if part)
    else:
        full_intent = whole_intent.read_bytes().decode()
        whole_intent.unlink()
    typed = RunRequest.of(
        blueprint=blueprint,
        repo=located(repo),
        intent=full_intent,
        intent_from=f"file:{intent_from.name}" if intent_from and untrusted else "",
        ref=ref,
        agent=agent,
        model=model,
        push=push,
        until_green=until_green,
        budget_usd=budget_usd,
        options=option_values([*(options or []), *([f"good={good}"] if good else [])]),
        user=user,
        company=company,
        allow_change=allow_change or [],
        mcp=mcp or [],
        wait_approvals_s=wait_approvals,
    )
    request = resolve_request(typed, find_blueprint(blueprint, repo=repo), settings)
    run_request(
        request, settings, run_id or new_run_id(settings.runs), detach=detach, as_json=as_json
    )


def run_request(
    request: ResolvedRequest,
    settings: Settings,
    run_id: str,
    *,
    as_json: bool,
    detach: bool = False,
    flow_run_id: str | None = None,
) -> None:
    """Check the request, then execute it here or in the background.

    `flow_run_id` belongs to a resumed run. Such a run is checked later, in the environment with
    its own secrets.

    Raises:
        typer.Exit: the run did not succeed.
    """
    create_home(settings.home)
    if flow_run_id is None:
        with waiting_for("checking the repository, Docker and the model"):
            notices = build_dependencies(settings).check_request(request)
        for notice in notices:
            print_message(f"note: {notice}")
    if detach:
        _start_in_background(run_id, request.intent, settings, as_json=as_json)
        return
    report = _execute(request, settings, run_id, flow_run_id, as_json=as_json)
    _print(report, as_json=as_json)
    if report.status != "success":
        raise typer.Exit(_exit_code(report))


def _exit_code(report: RunReport) -> int:
    environment_lacks = any(node.lacks for node in report.nodes if node.status == "failure")
    return Unavailable.exit_code if environment_lacks else EXIT_CODES.get(report.status, 1)


def _execute(
    request: ResolvedRequest,
    settings: Settings,
    run_id: str,
    flow_run_id: str | None,
    *,
    as_json: bool,
) -> RunReport:
    title = f"{request.definition.name} {run_id} on {redact_url(request.repo)}"
    try:
        with live_view(title, quiet=as_json) as listener:
            return run_in_prefect(
                request,
                settings,
                run_id=run_id,
                watch=listener,
                flow_run_id=flow_run_id,
                tell=lambda line: print_message(f"note: {line}"),
            )
    except HarnessError as error:
        _exit_with_report(error, settings, run_id, as_json=as_json)
    except KeyboardInterrupt as error:
        if read_record(settings.runs / run_id) is None:
            raise
        raise Interrupted(
            f"interrupted: `harness runs show {run_id}` shows how far the run got"
        ) from error


def _exit_with_report(
    error: HarnessError, settings: Settings, run_id: str, *, as_json: bool
) -> NoReturn:
    """Print the error and the report that the run wrote before the outage, if it wrote one."""
    try:
        report = read_report(settings.runs, run_id)
    except RunNotFound:
        raise error from None
    print_message(f"error: {error}")
    _print(report, as_json=as_json)
    raise typer.Exit(error.exit_code) from error


def _print(report: RunReport, *, as_json: bool) -> None:
    if as_json:
        print_json(to_json(report))
    else:
        print_report(report)


def _start_in_background(run_id: str, intent: str, settings: Settings, *, as_json: bool) -> None:
    """Execute the same command line in a process that survives this one.

    The intent is passed in a private file, since this process has read stdin, and others could
    read it in the arguments of the process.
    """
    log = settings.home / "logs" / f"{run_id}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    intent_file = log.with_suffix(".intent")
    intent_file.touch(mode=0o600)
    intent_file.write_bytes(intent.encode())
    arguments = [part for part in sys.argv[1:] if part not in ("--detach", "--json")]
    position = arguments.index("run") + 1  # options at the end may follow a `--`
    hidden = ("--run-id", run_id, "--whole-intent", str(intent_file))
    python = (sys.executable, "-P", "-m", "app")
    argv = (*python, *arguments[:position], *hidden, *arguments[position:])
    start_detached(argv, cwd=Path.cwd(), log=log)
    if as_json:
        print_json({"run_id": run_id, "log": str(log)})
    else:
        print_line(f"started {run_id}; see `harness runs show {run_id}` and {log}")
