"""Compiles a blueprint into a Prefect flow, with its name, tags and secrets.

Each node, step and attempt is a task run.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any, cast

from prefect import Flow, State, get_client
from prefect.blocks.system import Secret
from prefect.runtime import deployment, flow_run

from blueprints.engine import RunListener
from blueprints.types import Blueprint
from contracts.errors import SecretMissing
from contracts.run import RunReport
from flows.config.environment import set_variables
from flows.config.settings import load_settings
from flows.execution.dependencies import RunDependencies
from flows.execution.end_state import end_state
from flows.execution.reconcile import reconcile_flow_run
from flows.orchestration.attempt import attempt_run
from flows.orchestration.flow import (
    check_required,
    expected_errors,
    request_form,
    required_parameters,
)
from flows.orchestration.heartbeat import heartbeat
from flows.orchestration.memory_tasks import memory_tasks, note_tasks
from flows.orchestration.suspend import suspend_until_decided
from flows.runs.request import FlowRun, ResolvedRequest, RunRequest, repo_name
from flows.runs.run_record import check_run_id
from flows.runs.runs import finished_report, waits_for_approval
from flows.services import gateway
from flows.services.server_outage import ignore_outage

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
            opened = dependencies()
            if run_id is None:
                check_run_id(opened.runs / own_id(), str(flow_run.id))
            over = finished_report(opened.runs, own_id())
            if over is not None:
                return end_state(over)
            opened = replace(
                opened,
                memory=memory_tasks(opened.memory),
                open_notes=partial(note_tasks, opened.open_notes),
            )
            fields["repo"] = whole(fields["repo"])
            given = RunRequest.of(blueprint=blueprint_ref or blueprint.name, **fields)
            request = opened.resolve_request(given, blueprint)
            opened.check_request(request)
            tag_flow_run(request)
            suspends = run_id is None and deployment.id is not None
            this = FlowRun(str(flow_run.id), str(flow_run.ui_url), suspends)
            return end_state(_until_over(request, opened, own_id(), this, watch or RunListener()))

    return blueprint_flow


def _until_over(
    request: ResolvedRequest,
    dependencies: RunDependencies,
    run_id: str,
    this: FlowRun,
    watch: RunListener,
) -> RunReport:
    """Run until the report is final. A flow run that suspends does so while it waits for a
    person."""
    while True:
        if this.suspends and waits_for_approval(dependencies.runs, run_id):
            with dependencies.open_approvals() as approvals:
                suspend_until_decided(approvals, run_id)
        report = attempt_run(request, dependencies, run_id, this, watch)
        if not this.suspends or report.status != "waiting":
            return report


@contextmanager
def secret_variables(blocks: Mapping[str, str]) -> Iterator[None]:
    """Set each environment variable to the value of its Secret block during the block of code.

    Raises:
        SecretMissing: this server has no such block, or its value is not text.
    """
    if not blocks:
        yield
        return
    own_gateway = f"gateway-{sha256(repr(sorted(blocks.items())).encode()).hexdigest()[:8]}"
    secret = {name: _value(block) for name, block in blocks.items()}
    # A gateway of its own: the keys of one run must not serve other runs.
    with set_variables({**secret, "HARNESS_GATEWAY": own_gateway}):
        try:
            yield
        finally:
            gateway.down_if_idle(load_settings())


def _value(block: str) -> str:
    # Typed as a coroutine function; with `_sync` it returns the value.
    load = cast("Callable[..., Secret[str]]", Secret.load)
    try:
        kept = load(block, _sync=True)
    except ValueError as error:
        raise SecretMissing(
            f"no Secret block {block!r} on this Prefect server: "
            "create it under Blocks, or name another one in the run's secrets"
        ) from error
    value, read = kept.value.get_secret_value(), kept.get()  # `get` parses a text that is JSON
    for text in (read, value):
        if isinstance(text, str):
            return text
    raise SecretMissing(
        f"Secret block {block!r} holds a {type(value).__name__}, and a variable takes text: "
        "write it under Blocks as text, or name another one in the run's secrets"
    )


NO_REPO = "no repository"
"""Stands for the repository in the name of a flow run that was started without one."""


def run_name(blueprint: str, repo: str, run_id: str) -> str:
    """Return a name such as `fix-tests · my-project · 3f9a0c1d`."""
    return f"{blueprint} · {repo_name(repo)} · {run_id}"


def run_tags(request: ResolvedRequest) -> list[str]:
    """Return the tags by which the Prefect UI can filter."""
    return [
        f"blueprint:{request.definition.name}",
        f"repo:{repo_name(request.repo)}",
        f"agent:{request.agent}",
        f"model:{request.model}",
    ]


def tag_flow_run(request: ResolvedRequest) -> None:
    """Add the tags to the current flow run.

    Not before it starts: task runs inherit the tags that a flow run starts with, and for each tag
    of a task run Prefect asks the server for a concurrency limit.
    """
    known = [*(flow_run.tags or ()), *run_tags(request)]
    with ignore_outage("the tags of the flow run"):
        get_client(sync_client=True).update_flow_run(flow_run.id, tags=sorted(set(known)))
