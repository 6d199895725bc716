"""The flows of `prefect.yaml` that start runs; `flows/upkeep.py` has the others."""

from collections.abc import Sequence
from typing import Any

from prefect import State, flow
from prefect.runtime import flow_run

from blueprints.find import find_blueprint, installed_names, is_name, short_name
from blueprints.library import ci_doctor as _ci_doctor
from blueprints.library import fix_tests as _fix_tests
from blueprints.library import implement as _implement
from blueprints.library import review as _review
from blueprints.library import triage as _triage
from blueprints.library import update_docs as _update_docs
from blueprints.library import upgrade_deps as _upgrade_deps
from blueprints.types import Blueprint
from contracts.errors import BadInput, BlueprintNotFound, SettingsInvalid
from contracts.run import RunReport
from flows.config.settings import Settings, load_settings
from flows.execution.reconcile import reconcile_flow_run
from flows.execution.wiring import build_dependencies, resolve_request
from flows.orchestration.compile import NO_REPO, blueprint_flow, compile_blueprint, run_name
from flows.orchestration.flow import (
    check_required,
    expected_errors,
    request_form,
    required_parameters,
    unless_typed,
)
from flows.runs.allowed import may_load
from flows.runs.deployment_request import DeploymentRequest
from flows.runs.request import RunRequest
from flows.runs.request_checks import check_request
from nodes.agents.table import agent_rows

ci_doctor = compile_blueprint(_ci_doctor.ci_doctor, build_dependencies)
fix_tests = compile_blueprint(_fix_tests.fix_tests, build_dependencies)
implement = compile_blueprint(_implement.implement, build_dependencies)
release_notes = compile_blueprint(_update_docs.release_notes, build_dependencies)
review = compile_blueprint(_review.review, build_dependencies)
triage = compile_blueprint(_triage.triage, build_dependencies)
update_docs = compile_blueprint(_update_docs.update_docs, build_dependencies)
upgrade_deps = compile_blueprint(_upgrade_deps.upgrade_deps, build_dependencies)


def _flow_run_name() -> str:
    parameters = flow_run.parameters
    blueprint = short_name(str(parameters.get("blueprint") or "no blueprint"))
    repo = str(parameters.get("repo") or NO_REPO)
    return unless_typed(run_name(blueprint, repo, str(flow_run.id)[-8:]))


@required_parameters("blueprint", "repo")
@flow(
    name="run-blueprint",
    description="Run any blueprint that is installed here or that the operator allows",
    flow_run_name=_flow_run_name,
    persist_result=False,
    on_cancellation=[reconcile_flow_run],
    on_crashed=[reconcile_flow_run],
)
@expected_errors
@request_form()
def run_blueprint(*, blueprint: str, repo: str, **fields: Any) -> State[RunReport]:
    """Run the blueprint as this flow run; `flows/orchestration/flow.py` makes the parameters."""
    check_required({"blueprint": blueprint, "repo": repo})
    found = find_allowed_blueprint(blueprint, load_settings().allowed_blueprints, repo=repo)
    run = blueprint_flow(found, build_dependencies, blueprint_ref=blueprint)
    return run(repo=repo, **fields)


def check_deployment(request: DeploymentRequest, settings: Settings) -> None:
    """Check a deployment before it is made: its blueprint, options and schedule.

    Raises:
        BlueprintNotFound, BlueprintInvalid: as `find_allowed_blueprint`.
        BadInput: a field cannot be used.
    """
    request.check()
    found = find_allowed_blueprint(
        request.blueprint, settings.allowed_blueprints, repo=request.repo
    )
    fields = {name: getattr(request, name) for name in RunRequest.model_fields}
    resolved = resolve_request(RunRequest.of(**fields), found, settings)
    check_request(resolved, known_agents=agent_rows(), known_servers=settings.mcp)


def configured_deployments(settings: Settings) -> tuple[DeploymentRequest, ...]:
    """Return the deployments of the tables `[deployments.NAME]`, checked.

    Raises:
        SettingsInvalid: a table cannot be used; the message names it.
    """
    requests = []
    for name, table in settings.deployments.items():
        try:
            requests.append(DeploymentRequest.of(**{**table, "name": name}))
            check_deployment(requests[-1], settings)
        except BadInput as error:
            raise SettingsInvalid(f"[deployments.{name}]: {error}") from error
    return tuple(requests)


def find_allowed_blueprint(ref: str, patterns: Sequence[str], *, repo: str) -> Blueprint:
    """Load the blueprint of this name or reference, if the form may name it.

    A blueprint is code that runs on the worker's machine. A user who may fill in a form does not
    therefore get the right to run code there.

    Raises:
        BlueprintNotFound: it does not exist, or no pattern allows the reference.
        BlueprintInvalid: it cannot be loaded, or it lies in `repo`.
    """
    if not is_name(ref) and not may_load(ref, patterns, ()):
        raise BlueprintNotFound(
            f"this deployment may not load the blueprint {ref!r}. Allowed: "
            f"{', '.join((*installed_names(), *patterns))}. Add it to the setting "
            "`allowed_blueprints`"
        )
    return find_blueprint(ref, repo=repo)
