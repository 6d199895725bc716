"""Run a plan in a process of its own: `python -m flows.plans.background RUN_ID`."""

import sys
from pathlib import Path
from typing import NamedTuple

from contracts.errors import HarnessError
from flows.config.settings import Settings, load_settings
from flows.plans.dependencies import plan_dependencies
from flows.plans.record import record_plan_end, recorded_plan
from flows.plans.report import PlanStatus
from flows.plans.run_in_prefect import run_plan_in_prefect
from flows.services.daemon import start_detached
from sandbox.process_label import has_exited, process_label


class BackgroundPlan(NamedTuple):
    """The process that runs a plan: its log and its label."""

    log: Path
    process: str

    @property
    def has_ended(self) -> bool:
        """True if the process has exited; False if that cannot be known."""
        return self.process.endswith(":-") or has_exited(self.process)


def start_background_plan(settings: Settings, run_id: str) -> BackgroundPlan:
    """Start or resume the agreed plan of this id in a process that outlives this one.

    Its progress stands in the event log, ending with a `report` event.
    """
    log = settings.home / "logs" / f"{run_id}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    argv = (sys.executable, "-P", "-m", "flows.plans.background", run_id)
    return BackgroundPlan(log, process_label(start_detached(argv, cwd=Path.cwd(), log=log)))


def main(run_id: str) -> int:
    """Run the plan and record its status at the end; return an exit code."""
    settings = load_settings()
    with plan_dependencies(settings) as deps:
        _, plan = recorded_plan(deps.log, run_id)
        status: PlanStatus = "failure"
        error: str | None = "its process ended early"
        try:
            report = run_plan_in_prefect(deps, settings, run_id)
            status, error = report.status, report.error
        except HarnessError as outage:
            error = str(outage)
            sys.stderr.write(f"error: {outage}\n")
        finally:
            record_plan_end(deps.log, run_id, plan, status=status, error=error)
    return 1 if status == "failure" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
