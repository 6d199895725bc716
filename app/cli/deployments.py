"""`harness deploy` and `harness deployments`: blueprints that a Prefect server starts."""

from typing import Annotated

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
    located_blueprint,
    option_values,
)
from app.terminal.options import AsJson
from app.terminal.output import print_json, print_line, print_message, print_result, print_table
from blueprints.find import find_blueprint
from flows.config.settings import load_settings
from flows.runs.deployment_request import DeploymentRequest
from flows.runs.home import create_home
from flows.runs.request import CONFIGURED, ROUNDS, repo_name
from flows.services.deploy import missing_worker_warning
from flows.services.prefect_server import api_url, ui_url
from flows.services.user_deployments import list_deployments, make_deployment, remove_deployment

app = typer.Typer(no_args_is_help=True)

_FIELDS = DeploymentRequest.model_fields


def deploy(
    blueprint: BlueprintName,
    repo: Repo = ".",
    name: Annotated[
        str, typer.Option(help=f"{_FIELDS['name'].description} Default: BLUEPRINT-REPOSITORY.")
    ] = "",
    cron: Annotated[str, typer.Option(help=_FIELDS["cron"].description)] = "",
    interval: Annotated[
        float | None, typer.Option(metavar="SECONDS", help=_FIELDS["interval_s"].description)
    ] = None,
    timezone: Annotated[str, typer.Option(help=_FIELDS["timezone"].description)] = "UTC",
    intent: Intent = "",
    ref: Ref = "",
    agent: AgentName = CONFIGURED,
    model: Model = "",
    push: Push = False,
    until_green: UntilGreen = ROUNDS,
    options: SetOptions = None,
    budget_usd: BudgetUsd = None,
    user: UserId = "",
    company: CompanyId = "",
    allow_change: AllowChange = None,
    mcp: McpTools = None,
    as_json: AsJson = False,
) -> None:
    """Make a deployment of a blueprint on the Prefect server, with a schedule if you give one."""
    settings = load_settings()
    create_home(settings.home)
    place = located_blueprint(blueprint)
    request = DeploymentRequest.of(
        name=name or f"{find_blueprint(place, repo=repo).name}-{repo_name(located(repo))}",
        cron=cron,
        interval_s=interval,
        timezone=timezone,
        blueprint=place,
        repo=located(repo),
        intent=intent,
        ref=ref,
        agent=agent,
        model=model,
        push=push,
        until_green=until_green,
        options=option_values(options),
        budget_usd=budget_usd,
        user=user,
        company=company,
        allow_change=allow_change or [],
        mcp=mcp or [],
    )
    from flows.deployed import check_deployment  # imports Prefect: two seconds

    check_deployment(request, settings)
    api = api_url(settings)
    make_deployment(api, request)
    if warning := missing_worker_warning(api):
        print_message(f"note: {warning}")
    found = next(row for row in list_deployments(api) if row.name == request.name)
    when = found.schedule or "no schedule: start it in Prefect"
    text = f"deployed {found.name}: {found.blueprint} on {found.repo} ({when})"
    print_result(found._asdict(), f"{text}\n{ui_url(api)}/deployments", as_json)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the deployments that start runs, with their schedules."""
    rows = list_deployments(api_url(load_settings()))
    if as_json:
        print_json([row._asdict() for row in rows])
    elif not rows:
        print_line("no deployments: `harness up` makes those of the built-in blueprints")
    else:
        print_table(("deployment", "blueprint", "repository", "schedule", "state"), rows)


@app.command("rm")
def rm(
    name: Annotated[str, typer.Argument(help="Name in `harness deployments list`.")],
    as_json: AsJson = False,
) -> None:
    """Remove a deployment that `harness deploy` or the settings made; its runs stay."""
    settings = load_settings()
    remove_deployment(api_url(settings), name)
    if name in settings.deployments:
        print_message(f"note: [deployments.{name}] is still in the settings: `harness up` makes it")
    print_result({"removed": name}, f"removed {name}", as_json)
