"""The process of a worker: `python -m flows.host.worker_process NAME LIMIT [QUEUE]`."""

import asyncio
import os
import sys
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID

from httpx import HTTPError, HTTPStatusError, codes
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import WorkerFlowRunResponse
from prefect.settings import get_current_settings
from prefect.utilities.processutils import setup_signal_handlers_worker
from prefect.workers.process import ProcessWorker

from flows.host.fork_server import forking
from flows.host.run_process import ENGINE
from flows.services.deploy import WORK_POOL


class Worker(ProcessWorker):
    """Prefect's process worker, which asks for the next run as soon as one is over.

    A run that is retried before it is gone does not end it.
    """

    _asking = False
    _slot_was_freed = False

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

    async def _get_scheduled_flow_runs(self) -> list[WorkerFlowRunResponse]:
        """The next ones, no more than there are slots: Prefect's own would read 200 each time."""
        asked = {
            "work_queue_names": list(self._work_queues),
            "scheduled_before": (
                datetime.now(UTC) + timedelta(seconds=self._prefetch_seconds)
            ).isoformat(),
            "limit": int(self.limiter.total_tokens),
        }
        try:
            answer = await self.client.request(
                "POST",
                "/work_pools/{name}/get_scheduled_flow_runs",
                path_params={"name": self._work_pool_name},
                json=asked,
            )
        except HTTPStatusError as error:
            if error.response.status_code == codes.NOT_FOUND:
                return []  # the pool is made anew at the next heartbeat
            raise
        return [WorkerFlowRunResponse.model_validate(entry) for entry in answer.json()]

    async def get_and_submit_flow_runs(self) -> list[FlowRun]:
        """Ask one question at a time, and at once again when a slot was freed meanwhile."""
        if self._asking:
            return []
        self._asking, self._slot_was_freed = True, True
        found: list[FlowRun] = []
        try:
            while self._slot_was_freed:
                self._slot_was_freed = False
                found += await super().get_and_submit_flow_runs()
        finally:
            self._asking = False
        return found

    def _release_limit_slot(self, flow_run_id: UUID) -> None:
        super()._release_limit_slot(flow_run_id)
        self._slot_was_freed = True
        if self.is_setup and self._runs_task_group is not None:
            self._runs_task_group.start_soon(self._ask_again)

    async def _ask_again(self) -> None:
        with suppress(HTTPError):  # the next look, which is due anyway, tells
            await self.get_and_submit_flow_runs()


def main() -> None:
    """Ask for work until the process is told to end."""
    name, limit, *queue = sys.argv[1:]
    setup_signal_handlers_worker(os.getpid(), "the worker", print)
    worker = Worker(
        name=name, work_pool_name=WORK_POOL, work_queues=queue or None, limit=int(limit)
    )
    # As Prefect's worker gives them to what it starts.
    env = get_current_settings().to_environment_variables(exclude_unset=True)
    with (
        nullcontext() if queue else forking(ENGINE, env),
        suppress(asyncio.CancelledError, KeyboardInterrupt),
    ):
        asyncio.run(worker.start(with_healthcheck=True))


if __name__ == "__main__":
    main()
