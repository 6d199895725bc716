"""A plan that is run by a process of its own: `python -m flows.plans.background RUN_ID`."""

import sys
from pathlib import Path
from typing import NamedTuple

from contracts.errors import HarnessError
from flows.config.settings import Settings, load_settings
from flows.plans.dependencies import plan_dependencies
from flows.plans.end import record_plan_end
from flows.plans.report import PlanStatus
from flows.plans.request import recorded_plan
from flows.plans.run_in_prefect import run_plan_in_prefect
from flows.services.detached import start_detached
from sandbox.process_label import has_exited, process_label


class BackgroundPlan(NamedTuple):
    """A process that goes on with a run, where it writes, and its label."""

    log: Path
    process: str

    @property
    def has_ended(self) -> bool:
        """True when the process is gone; False when nobody can tell."""
        return self.process.endswith(":-") or has_exited(self.process)


def start_background_plan(settings: Settings, run_id: str) -> BackgroundPlan:
    """Go on with the plan that was agreed on under this id, in a process that outlives us.

    What it does is told by the event log; its last word there is a `report`.
    """
    log = settings.home / "logs" / f"{run_id}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    argv = (sys.executable, "-P", "-m", "flows.plans.background", run_id)
    return BackgroundPlan(log, process_label(start_detached(argv, cwd=Path.cwd(), log=log)))


def main(run_id: str) -> int:
    """Go on with the run and note how it stands then; gives an exit code."""
    settings = load_settings()
    with plan_dependencies(settings) as shop:
        _, plan = recorded_plan(shop.log, run_id)
        status: PlanStatus = "failure"
        error: str | None = "its process broke off"
        try:
            report = run_plan_in_prefect(shop, settings, run_id)
            status, error = report.status, report.error
        except HarnessError as outage:
            error = str(outage)
            sys.stderr.write(f"error: {outage}\n")
        finally:
            record_plan_end(shop.log, run_id, plan, status=status, error=error)
    return 1 if status == "failure" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
