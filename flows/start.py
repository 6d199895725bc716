"""Start a run in this process, visible in Prefect."""

from collections.abc import Iterator
from contextlib import contextmanager

from blueprints.engine import Watch
from contracts.errors import PrefectUnavailable
from contracts.run import RunReport
from flows.local import api_url
from flows.request import RunRequest
from flows.settings import Settings
from flows.wiring import workshop


def run_in_prefect(
    request: RunRequest, settings: Settings, *, run_id: str, watch: Watch
) -> RunReport:
    """Run the request as a flow run of the server in use; one is started when there is none.

    Raises:
        PrefectUnavailable: no server, or it went away; the run itself may have ended well.
        HarnessError: whatever ended the run before it could report.
    """
    api = api_url(settings)
    with _prefect_at(api):
        from flows.compile import compile_blueprint

        flow = compile_blueprint(
            request.blueprint, lambda: workshop(settings), run_id=run_id, watch=watch
        )
        state = flow(
            repo=request.repo,
            intent=request.intent,
            ref=request.ref or "",
            agent=request.agent,
            model=request.model,
            push=request.push,
            budget_usd=request.budget_usd,
            options=dict(request.options),
            return_state=True,
        )
        result = state.result(raise_on_failure=False)
    if isinstance(result, RunReport):
        return result
    raise result


@contextmanager
def _prefect_at(api: str) -> Iterator[None]:
    from httpx import TransportError
    from prefect.settings import PREFECT_API_URL, temporary_settings

    try:
        with temporary_settings({PREFECT_API_URL: api}):
            yield
    except TransportError as error:
        raise PrefectUnavailable(
            f"the Prefect server at {api} stopped answering during the run: {error}"
        ) from error
