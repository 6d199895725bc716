"""The process of a worker: `python -m flows.host.worker_process NAME LIMIT [QUEUE]`."""

import asyncio
import os
import sys
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from time import monotonic
from uuid import UUID

from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.responses import WorkerFlowRunResponse
from prefect.settings import get_current_settings
from prefect.states import AwaitingRetry
from prefect.utilities.processutils import setup_signal_handlers_worker
from prefect.workers.process import ProcessWorker

from flows.config.settings import load_settings
from flows.execution.end_state import crash_open_tasks
from flows.host.run_process import ENGINE
from flows.host.worker_forks import forking
from flows.runs.runs import try_read_record
from flows.services.deploy import WORK_POOL
from flows.services.machines import (
    DIED,
    WORKER_LABEL,
    DeathWatch,
    Machine,
    is_in_question,
    recorded,
    takes_over,
    this_machine,
    why_left,
)

HEARTBEAT_S = 10
"""Seconds between heartbeats. The server shows a worker as offline after three that are missing."""

_OPEN = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PENDING, StateType.RUNNING]))


class Worker(ProcessWorker):
    """Prefect's process worker, which a retried run does not end.

    It leaves runs to other machines that only those may execute, and takes over those of machines
    that died.
    """

    machine: Machine | None = None
    """None: it takes every run of its queues."""
    runs: Path = Path()

    @cached_property
    def _left(self) -> set[UUID]:
        """Runs whose log says that this machine leaves them to another one."""
        return set()

    @cached_property
    def _watch(self) -> DeathWatch:
        return DeathWatch(self.name)

    @classmethod
    def __dispatch_key__(cls) -> str:
        """A key of its own among Prefect's workers, which would warn of a second "process"."""
        return "harness"

    async def _submit_scheduled_flow_runs(
        self, flow_run_response: list[WorkerFlowRunResponse]
    ) -> list[FlowRun]:
        """Submit the runs for this machine, except those whose earlier process still holds a slot.

        A run that is retried before its process ended would make Prefect's worker raise and end.
        The next poll finds it again.
        """
        holders = self.limiter.statistics().borrowers
        free = [
            entry
            for entry in flow_run_response
            if entry.flow_run.id not in holders and await self._takes(entry.flow_run)
        ]
        return await super()._submit_scheduled_flow_runs(free)

    async def _takes(self, run: FlowRun) -> bool:
        if self.machine is None:
            return True
        record = try_read_record(self.runs / str(run.id)[-8:])
        has_files = record is not None and record.flow_run_id == str(run.id)
        if not is_in_question(run, self.machine, has_files=has_files):
            return True
        others = recorded(await self.client.read_variables())
        why = why_left(run, self.machine, others, has_files=has_files)
        if why is not None and run.id not in self._left:
            self._left.add(run.id)
            self.get_flow_run_logger(run).info("%s leaves this run: %s", self.name, why)
        return why is None

    async def sync_with_backend(self) -> None:
        """Send a heartbeat, and look for machines that died."""
        await super().sync_with_backend()
        if self.machine is not None:
            await self._take_over()

    async def _take_over(self) -> None:
        """Schedule the runs of dead machines again, unless another machine does so."""
        workers = await self.client.read_workers_for_work_pool(WORK_POOL)
        dead = self._watch.look(workers, now_s=monotonic())
        if not dead or not takes_over(workers, self.name):
            return
        known = dead & recorded(await self.client.read_variables()).keys()
        pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[WORK_POOL]))
        taken = await self.client.read_flow_runs(
            flow_run_filter=FlowRunFilter(state=_OPEN), work_pool_filter=pool
        )
        for run in taken:
            if run.labels.get(WORKER_LABEL) in known:
                await asyncio.to_thread(partial(crash_open_tasks, run.id, DIED))
                # Its own time: it goes before runs that were asked for later.
                due = run.expected_start_time or datetime.now(UTC)
                again: State[object] = AwaitingRetry(scheduled_time=due, message=DIED)
                await self.client.set_flow_run_state(run.id, again)


def main() -> None:
    """Poll for work until SIGTERM or SIGINT."""
    name, limit, *queues = sys.argv[1:]
    setup_signal_handlers_worker(os.getpid(), "the worker", print)
    worker = Worker(
        name=name,
        work_pool_name=WORK_POOL,
        work_queues=queues or None,
        limit=int(limit),
        heartbeat_interval_seconds=HEARTBEAT_S,
    )
    if not queues:
        settings = load_settings()
        worker.machine, worker.runs = this_machine(settings), settings.runs
    # Prefect's worker passes the same variables to the processes of its runs.
    env = get_current_settings().to_environment_variables(exclude_unset=True)
    with (
        nullcontext() if queues else forking(ENGINE, env),
        suppress(asyncio.CancelledError, KeyboardInterrupt),
    ):
        asyncio.run(worker.start(with_healthcheck=True))


if __name__ == "__main__":
    main()
