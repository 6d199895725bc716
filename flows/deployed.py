"""The flows that `prefect.yaml` points at and that start runs; `upkeep.py` has the others."""

from typing import Any

from prefect import State, flow
from prefect.runtime import flow_run

from blueprints.library import fix_tests as _fix_tests
from blueprints.library import implement as _implement
from blueprints.library import review as _review
from blueprints.library import upgrade_deps as _upgrade_deps
from contracts.run import RunReport
from flows.config.settings import load_settings
from flows.execution.reconcile import settle_flow_run
from flows.execution.wiring import workshop
from flows.orchestration.allowed_blueprints import allowed_blueprint
from flows.orchestration.compile import compile_blueprint, flow_function
from flows.orchestration.flow import check_given, expected_errors, must_be_given
from flows.orchestration.form import request_form
from flows.orchestration.names import NO_REPO, run_name

fix_tests = compile_blueprint(_fix_tests.fix_tests, workshop)
implement = compile_blueprint(_implement.implement, workshop)
review = compile_blueprint(_review.review, workshop)
upgrade_deps = compile_blueprint(_upgrade_deps.upgrade_deps, workshop)


def _own_name() -> str:
    given = flow_run.parameters
    blueprint = str(given.get("blueprint") or "no blueprint").rpartition(":")[2]
    return run_name(blueprint, str(given.get("repo") or NO_REPO), str(flow_run.id)[-8:])


@must_be_given("blueprint", "repo")
@flow(
    name="run-blueprint",
    description="Run any blueprint that is installed here or that the operator allows",
    flow_run_name=_own_name,
    persist_result=False,
    on_cancellation=[settle_flow_run],
    on_crashed=[settle_flow_run],
)
@expected_errors
@request_form()
def run_blueprint(*, blueprint: str, repo: str, **fields: Any) -> State[RunReport]:
    """Run the blueprint as this flow run; `flows/orchestration/form.py` makes the parameters."""
    check_given({"blueprint": blueprint, "repo": repo})
    found = allowed_blueprint(blueprint, load_settings().allowed_blueprints, repo=repo)
    run = flow_function(found, workshop, blueprint_ref=blueprint)
    return run(repo=repo, **fields)
