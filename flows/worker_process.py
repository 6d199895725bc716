"""The process of a worker: `python -m flows.worker_process NAME LIMIT [QUEUE]`."""

import asyncio
import os
import sys
from contextlib import nullcontext, suppress

from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import WorkerFlowRunResponse
from prefect.settings import get_current_settings
from prefect.utilities.processutils import setup_signal_handlers_worker
from prefect.workers.process import ProcessWorker

from flows.deploy import POOL
from flows.fork_server import forking
from flows.run_process import ENGINE


class Worker(ProcessWorker):
    """Prefect's process worker, which a run cannot end that is retried before it is gone."""

    @classmethod
    def __dispatch_key__(cls) -> str:
        """A key of its own among Prefect's workers, which would warn of a second "process"."""
        return "harness"

    async def _submit_scheduled_flow_runs(
        self, flow_run_response: list[WorkerFlowRunResponse]
    ) -> list[FlowRun]:
        """Leave for the next look whom a slot is still held for: Prefect's own would raise."""
        held = self.limiter.statistics().borrowers
        free = [entry for entry in flow_run_response if entry.flow_run.id not in held]
        return await super()._submit_scheduled_flow_runs(free)


def main() -> None:
    """Ask for work until the process is told to end."""
    name, limit, *queue = sys.argv[1:]
    setup_signal_handlers_worker(os.getpid(), "the worker", print)
    worker = Worker(name=name, work_pool_name=POOL, work_queues=queue or None, limit=int(limit))
    # As Prefect's worker gives them to what it starts.
    env = get_current_settings().to_environment_variables(exclude_unset=True)
    with (
        nullcontext() if queue else forking(ENGINE, env),
        suppress(asyncio.CancelledError, KeyboardInterrupt),
    ):
        asyncio.run(worker.start(with_healthcheck=True))


if __name__ == "__main__":
    main()
