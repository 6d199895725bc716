"""Starts a run in this process, visible in Prefect."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast
from uuid import UUID

from blueprints.engine import RunListener
from contracts.errors import NodeBroken, PrefectUnavailable
from contracts.run import RunReport
from flows.config.settings import Settings, load_settings
from flows.execution.wiring import build_dependencies
from flows.runs.request import ResolvedRequest
from flows.runs.runs import read_report, reported_at
from flows.services.prefect_server import api_url, use_server
from nodes.node_errors import describe_node_error
from sandbox.redaction import redact_url

if TYPE_CHECKING:
    from prefect import State
    from prefect.client.schemas import FlowRun

    from flows.execution.dependencies import RunDependencies
    from flows.orchestration.compile import RunFlow

_log = logging.getLogger(__name__)


def run_in_prefect(
    request: ResolvedRequest,
    settings: Settings,
    *,
    run_id: str,
    watch: RunListener,
    flow_run_id: str | None = None,
    tell: Callable[[str], None] = _log.warning,
) -> RunReport:
    """Run the checked request as a flow run; start a Prefect server if none is configured.

    A resumed run continues in its own flow run if the server still has it. A run that has begun
    also continues if the server goes down: `tell` gets one line, and the flow run gets its final
    state once the server answers again.

    Raises:
        PrefectUnavailable: no server, or it went down before the run began.
        NodeBroken: a node raised; the message names the node, the error and the line.
        HarnessError: another error ended the run before it could report.
    """
    api = api_url(settings)
    before = reported_at(settings.runs, run_id)
    with connected_to(api):
        from flows.execution.end_state import record_unset_state, set_recorded_states
        from flows.orchestration.compile import compile_blueprint
        from flows.services.server_outage import ServerUnreachable, is_outage, survive_outages

        set_recorded_states(settings.runs, api)

        flow = compile_blueprint(
            request.definition,
            lambda: _build_checked(request, settings, checked=flow_run_id is None),
            blueprint_ref=request.blueprint,
            run_id=run_id,
            watch=watch,
            whole=lambda _: request.repo,
        )
        parameters = request.model_dump(exclude={"blueprint", "wait_approvals_s"})
        parameters["repo"] = redact_url(request.repo)
        try:
            with survive_outages(api, tell):
                state = run_in_flow_run(flow, parameters, flow_run_id)
        except Exception as error:
            # Errors of the run are in its state; this comes from Prefect's engine.
            if not is_outage(error) or reported_at(settings.runs, run_id) in {None, before}:
                raise
            record_unset_state(settings.runs / run_id, api)
            if not isinstance(error, ServerUnreachable):  # the server was too busy to answer
                raise
            return read_report(settings.runs, run_id)
        result = state.result(raise_on_failure=False)
    if isinstance(result, RunReport):
        return result
    blamed = describe_node_error(result)
    if blamed is not None:
        raise NodeBroken(blamed) from result
    raise result


def _build_checked(
    request: ResolvedRequest, settings: Settings, *, checked: bool
) -> "RunDependencies":
    """Build the dependencies inside the flow run, where the run's secrets and gateway are set."""
    own = settings.model_copy(update={"gateway": load_settings().gateway})
    made = build_dependencies(own, wait_s=request.wait_approvals_s)
    return replace(made, check_request=_checked) if checked else made


def _checked(_: ResolvedRequest) -> tuple[str, ...]:
    return ()


def run_in_flow_run(
    flow: "RunFlow", parameters: dict[str, object], flow_run_id: str | None
) -> "State[RunReport]":
    """Run the flow in its earlier flow run, or in a new one if there is none.

    An earlier flow run keeps its own parameters.
    """
    from prefect.flow_engine import run_flow
    from prefect.utilities.callables import get_parameter_defaults

    flow_run = _reopened(flow_run_id) if flow_run_id else None
    if flow_run is None:
        return flow(**parameters, return_state=True)
    defaults = get_parameter_defaults(flow.fn) | parameters
    own = {name: value for name, value in flow_run.parameters.items() if name in defaults}
    done = run_flow(flow, flow_run, defaults | own, return_type="state")
    return cast("State[RunReport]", done)  # run_flow is typed for all kinds of flows


def _reopened(flow_run_id: str) -> "FlowRun | None":
    """Return the flow run, set to run again; None if the server does not have it."""
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound
    from prefect.states import Pending

    with suppress(ObjectNotFound), get_client(sync_client=True) as client:
        id_ = UUID(flow_run_id)
        client.set_flow_run_state(id_, Pending(message="goes on"), force=True)
        return client.read_flow_run(id_)
    return None


@contextmanager
def connected_to(api: str) -> Iterator[None]:
    """Use this Prefect server during the block.

    Raises:
        PrefectUnavailable: the server went down, was too busy for too long, or lost a flow run.
    """
    from httpx import TransportError
    from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

    try:
        with use_server(api):
            yield
    except (TransportError, PrefectHTTPStatusError) as error:
        why = " ".join(str(error).split())[:200]
        raise PrefectUnavailable(
            f"the Prefect server at {api} stopped answering during the run: {why}"
        ) from error
    except ObjectNotFound as error:
        raise PrefectUnavailable(
            f"the Prefect server at {api} does not know the flow run any more: it was deleted there"
        ) from error
