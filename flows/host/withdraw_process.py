"""Withdraws what was cancelled while it waited: `python -P -m flows.host.withdraw_process RUN`."""

import sys

from flows.config.settings import load_settings
from flows.execution.cancel_waiting import withdraw
from flows.execution.wiring import workshop
from flows.plans.reconcile import withdraw_plan
from flows.plans.wiring import plan_shop


def main(run_id: str) -> None:
    """Withdraw the run or plan whose flow run was cancelled; another machine's is not here."""
    settings = load_settings()
    if withdraw(workshop(settings), run_id) is None:
        with plan_shop(settings) as shop:
            withdraw_plan(shop, run_id)


if __name__ == "__main__":
    main(sys.argv[1])
