"""Goes on with a plan here, visible in Prefect."""

import logging

from filelock import FileLock

from flows.config.settings import Settings
from flows.orchestration.start import connected_to
from flows.plans.report import PlanReport
from flows.plans.run import PlanDependencies
from flows.services.prefect_server import api_url
from policy.types import Approver

_log = logging.getLogger(__name__)


def run_plan_in_prefect(
    shop: PlanDependencies, settings: Settings, run_id: str, person: Approver | None = None
) -> PlanReport:
    """Run what can be run of the plan that was agreed on under this id.

    Of several processes that go on with the same run, each waits for the one before it.

    Raises:
        RunNotFound: there is none.
        PrefectUnavailable: no server, or it went away.
        HarnessError: whatever ended the run before it could report.
    """
    api = api_url(settings)
    with _alone(settings, run_id), connected_to(api):
        from flows.plans.compile import compile_plan
        from flows.services.server_outage import survive_outages

        with survive_outages(api, _log.warning):
            state = compile_plan(shop, run_id, person)(return_state=True)
        result: object = state.result(raise_on_failure=False)
    if isinstance(result, PlanReport):
        return result
    if isinstance(result, BaseException):
        raise result
    raise TypeError(f"the plan gave {result!r}, which is no PlanReport")


def _alone(settings: Settings, run_id: str) -> FileLock:
    folder = settings.home / "plans"
    folder.mkdir(parents=True, exist_ok=True)
    return FileLock(folder / f"{run_id}.lock")
