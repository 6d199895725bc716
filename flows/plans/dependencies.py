"""Build the dependencies of plans from the settings."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from json import dumps, loads

from blueprints.find import find_blueprint, is_name, load_file
from contracts.errors import OperationInvalid
from contracts.json import Json
from contracts.sandbox import SnapshotId
from flows.audit.event_log import event_log, make_approvals
from flows.config.policy import PolicySettings, load_policy_settings
from flows.config.settings import Settings
from flows.execution.dependencies import OpenedSandbox
from flows.execution.egress import open_way_out
from flows.execution.engine import run_blueprint
from flows.execution.sandboxes import sandbox_spec, snapshot_remover
from flows.execution.wiring import build_dependencies, docker_engine, sandbox_owner
from flows.plans.request import PlanRequest
from flows.plans.run import PlanDependencies
from flows.plans.workspace import OpenSandbox
from flows.runs.request import new_run_id
from flows.services.gateway import complete_through_gateway
from policy.errors import OperationFailed
from policy.plan.registry import Operation
from sandbox.container import DockerSandbox


@contextmanager
def plan_dependencies(
    settings: Settings,
    *,
    planner: str | None = None,
    ask_person: Callable[[str], str] | None = None,
    policy: PolicySettings | None = None,
    open_sandbox: Callable[[str], OpenSandbox] | None = None,
) -> Iterator[PlanDependencies]:
    """Give everything that plans need. No model and no Docker engine is called yet.

    Raises:
        SettingsInvalid: the settings cannot be read.
        StoreUnavailable: the event log cannot be opened.
    """
    chosen = policy or load_policy_settings()
    with (
        event_log(settings.home, sandbox_owner(settings)) as log,
        complete_through_gateway(settings, purpose="plan") as complete,
    ):
        yield PlanDependencies(
            policy=chosen,
            planner=planner or chosen.planner,
            model=chosen.executor or settings.model,
            repos=settings.repos,
            log=log,
            approvals=make_approvals(log, chosen),
            complete=complete,
            open_sandbox=open_sandbox or _sandboxes(settings),
            delete_snapshots=snapshot_remover(settings, docker_engine),
            run_blueprint=_blueprints(settings),
            ask_person=ask_person,
            custom_operations=tuple(_own(chosen)),
        )


def _sandboxes(settings: Settings) -> Callable[[str], OpenSandbox]:
    wanted = settings.sandbox

    def for_run(run_id: str) -> OpenSandbox:
        @contextmanager
        def open_it(checkpoint: SnapshotId | None) -> Iterator[OpenedSandbox]:
            docker = docker_engine()
            spec = sandbox_spec(settings, docker, run_id)
            with (
                DockerSandbox.start(docker, spec, checkpoint=checkpoint) as sandbox,
                open_way_out(sandbox, wanted, (), on_event=lambda _: None) as env,
            ):
                yield OpenedSandbox(sandbox, {**wanted.env, **env})

        return open_it

    return for_run


def _own(policy: PolicySettings) -> Iterator[Operation]:
    """Load the user's operations from the files of `[policy] operations`.

    Raises:
        OperationInvalid: a file does not exist, or contains no operation.
    """
    for path in policy.operations:
        module = load_file(str(path), repo=None)
        named = vars(module).values() if module else ()
        found = [one for one in named if isinstance(one, Operation)]
        if not found:
            raise OperationInvalid(f"[policy] operations: {str(path)!r} holds no operation")
        yield from found


def _blueprints(settings: Settings) -> Callable[[PlanRequest, str, str], Json]:
    def run(plan: PlanRequest, name: str, intent: str) -> Json:
        if not is_name(name):
            raise OperationFailed(f"{name!r}: a plan runs installed blueprints only")
        deps = build_dependencies(settings)
        request = deps.resolve_request(plan.run_request(name, intent), find_blueprint(name))
        deps.check_request(request)
        # With Prefect, which a plan that is only looked at does not need.
        from flows.orchestration.limits import hold_slots, run_limits

        with hold_slots(run_limits(request, settings.limits)):
            report = run_blueprint(request, deps, run_id=new_run_id())
        found: Json = loads(dumps(asdict(replace(report, nodes=())), default=str))
        return found

    return run
