"""The process of a worker: `python -m flows.host.worker_process NAME LIMIT [QUEUE]`."""

import asyncio
import os
import sys
from contextlib import nullcontext, suppress

from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import WorkerFlowRunResponse
from prefect.settings import get_current_settings
from prefect.utilities.processutils import setup_signal_handlers_worker
from prefect.workers.process import ProcessWorker

from flows.host.run_process import ENGINE
from flows.host.worker_forks import forking
from flows.services.deploy import WORK_POOL


class Worker(ProcessWorker):
    """Prefect's process worker, which a retried run does not end."""

    @classmethod
    def __dispatch_key__(cls) -> str:
        """A key of its own among Prefect's workers, which would warn of a second "process"."""
        return "harness"

    async def _submit_scheduled_flow_runs(
        self, flow_run_response: list[WorkerFlowRunResponse]
    ) -> list[FlowRun]:
        """Submit the runs, except those whose earlier process still holds a slot of this worker.

        A run that is retried before its process ended would make Prefect's worker raise and end.
        The next poll finds it again.
        """
        holders = self.limiter.statistics().borrowers
        free = [entry for entry in flow_run_response if entry.flow_run.id not in holders]
        return await super()._submit_scheduled_flow_runs(free)


def main() -> None:
    """Poll for work until SIGTERM or SIGINT."""
    name, limit, *queues = sys.argv[1:]
    setup_signal_handlers_worker(os.getpid(), "the worker", print)
    worker = Worker(
        name=name, work_pool_name=WORK_POOL, work_queues=queues or None, limit=int(limit)
    )
    # Prefect's worker passes the same variables to the processes of its runs.
    env = get_current_settings().to_environment_variables(exclude_unset=True)
    with (
        nullcontext() if queues else forking(ENGINE, env),
        suppress(asyncio.CancelledError, KeyboardInterrupt),
    ):
        asyncio.run(worker.start(with_healthcheck=True))


if __name__ == "__main__":
    main()
