"""Run a plan in this process as a Prefect flow run."""

import logging

from filelock import FileLock

from flows.config.settings import Settings
from flows.orchestration.start import connected_to
from flows.plans.report import PlanReport
from flows.plans.run import PlanDependencies
from flows.services.prefect_server import api_url
from policy.plan.approval_request import Approver

_log = logging.getLogger(__name__)


def run_plan_in_prefect(
    deps: PlanDependencies, settings: Settings, run_id: str, person: Approver | None = None
) -> PlanReport:
    """Run the steps of the agreed plan of this id that can run now, and return its report.

    Processes that resume the same plan wait for each other.

    Raises:
        RunNotFound: there is no such plan.
        PrefectUnavailable: there is no server, or it stopped answering.
        HarnessError: any error that ended the run before it could report.
    """
    api = api_url(settings)
    locks = settings.home / "plans"
    locks.mkdir(parents=True, exist_ok=True)
    with FileLock(locks / f"{run_id}.lock"), connected_to(api):
        from flows.plans.compile import compile_plan
        from flows.services.server_outage import survive_outages

        with survive_outages(api, _log.warning):
            state = compile_plan(deps, run_id, person)(return_state=True)
        result: object = state.result(raise_on_failure=False)
    if isinstance(result, PlanReport):
        return result
    if isinstance(result, BaseException):
        raise result
    raise TypeError(f"the plan returned {result!r}, which is no PlanReport")
