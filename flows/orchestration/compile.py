"""Compiles a blueprint into a Prefect flow: each node, step and attempt is a task run."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from prefect import Flow, State
from prefect.runtime import deployment, flow_run

from blueprints.engine import RunListener
from blueprints.types import Blueprint
from contracts.run import RunReport
from flows.execution.dependencies import RunDependencies
from flows.execution.end_state import end_state
from flows.execution.reconcile import reconcile_flow_run
from flows.orchestration.attempt import attempt_run
from flows.orchestration.flow import (
    check_required,
    expected_errors,
    required_parameters,
)
from flows.orchestration.form import request_form
from flows.orchestration.heartbeat import heartbeat
from flows.orchestration.memory_tasks import memory_tasks, note_tasks
from flows.orchestration.names import NO_REPO, run_name, tag_flow_run
from flows.orchestration.secrets import secret_variables
from flows.orchestration.suspend import suspend_until_decided
from flows.runs.request import FlowRun, ResolvedRequest, RunRequest
from flows.runs.run_record import check_run_id
from flows.runs.runs import finished_report, waits_for_approval

RunFlow = Flow[..., State[RunReport]]


def compile_blueprint(
    blueprint: Blueprint,
    dependencies: Callable[[], RunDependencies],
    *,
    blueprint_ref: str = "",
    run_id: str | None = None,
    watch: RunListener | None = None,
    whole: Callable[[str], str] = str,
) -> RunFlow:
    """Return the flow that runs this blueprint, under the blueprint's name.

    The flow ends Completed or Failed with the `RunReport` as data; an exception of a node is
    raised. `run_id=None` uses the last eight hex digits of the flow run's id. `dependencies` is
    called when a run starts. A retried flow run resumes its run; if the run had finished, the flow
    run ends at once with the same state. A flow run of a deployment suspends while it waits for a
    person. `whole` maps a repository address to the one with its password.
    """

    def own_name() -> str:
        own_id = run_id or str(flow_run.id)[-8:]
        repo = str(flow_run.parameters.get("repo") or NO_REPO)
        return run_name(blueprint.name, repo, own_id)

    compiled = Flow(
        blueprint_flow(
            blueprint,
            dependencies,
            blueprint_ref=blueprint_ref,
            run_id=run_id,
            watch=watch,
            whole=whole,
        ),
        name=blueprint.name,
        description=blueprint.description,
        flow_run_name=own_name,
        persist_result=False,
        on_cancellation=[reconcile_flow_run],
        on_crashed=[reconcile_flow_run],
    )
    return required_parameters("repo")(compiled)


def blueprint_flow(
    blueprint: Blueprint,
    dependencies: Callable[[], RunDependencies],
    *,
    blueprint_ref: str,
    run_id: str | None = None,
    watch: RunListener | None = None,
    whole: Callable[[str], str] = str,
) -> Callable[..., State[RunReport]]:
    """Return the function of this blueprint's flow; the caller names and decorates the flow."""

    def own_id() -> str:
        return run_id or str(flow_run.id)[-8:]

    @expected_errors
    @request_form(blueprint, without=("blueprint",))
    def blueprint_flow(**fields: Any) -> State[RunReport]:
        """Run the blueprint. The parameters are made by `request_form`."""
        check_required({"repo": fields["repo"]})
        with secret_variables(fields["secrets"]), heartbeat():
            tools = dependencies()
            if run_id is None:
                check_run_id(tools.runs / own_id(), str(flow_run.id))
            over = finished_report(tools.runs, own_id())
            if over is not None:
                return end_state(over)
            tools = replace(
                tools,
                memory=memory_tasks(tools.memory),
                open_notes=partial(note_tasks, tools.open_notes),
            )
            fields["repo"] = whole(fields["repo"])
            given = RunRequest.of(blueprint=blueprint_ref or blueprint.name, **fields)
            request = tools.resolve_request(given, blueprint)
            tools.check_request(request)
            tag_flow_run(request)
            suspends = run_id is None and deployment.id is not None
            this = FlowRun(str(flow_run.id), str(flow_run.ui_url), suspends)
            return end_state(_until_over(request, tools, own_id(), this, watch or RunListener()))

    return blueprint_flow


def _until_over(
    request: ResolvedRequest, tools: RunDependencies, run_id: str, this: FlowRun, watch: RunListener
) -> RunReport:
    """Run until the report is final. A flow run that suspends does so while it waits for a
    person."""
    while True:
        if this.suspends and waits_for_approval(tools.runs, run_id):
            with tools.open_approvals() as approvals:
                suspend_until_decided(approvals, run_id)
        report = attempt_run(request, tools, run_id, this, watch)
        if not this.suspends or report.status != "waiting":
            return report
