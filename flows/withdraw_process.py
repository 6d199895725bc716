"""Withdraws what was cancelled while it waited: `python -P -m flows.withdraw_process RUN`."""

import sys

from flows.plan_wiring import plan_shop
from flows.settings import load_settings
from flows.settle_plan import withdraw_plan
from flows.wiring import workshop
from flows.withdraw import withdraw


def main(run_id: str) -> None:
    """Withdraw the run or plan whose flow run was cancelled; another machine's is not here."""
    settings = load_settings()
    if withdraw(workshop(settings), run_id) is None:
        with plan_shop(settings) as shop:
            withdraw_plan(shop, run_id)


if __name__ == "__main__":
    main(sys.argv[1])
