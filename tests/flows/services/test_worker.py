"""The worker: its version, when it may be replaced, and a retry that must not end it."""

import asyncio
import os
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from json import dumps
from pathlib import Path
from uuid import uuid4

import pytest
from anyio import CapacityLimiter

from flows.config.settings import Settings
from flows.services import daemon
from flows.services.daemon import Daemon, RunningDaemon
from flows.services.daemons import worker_daemon
from sandbox.process_label import process_label


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Daemon]:
    def make(**given: int) -> Daemon:
        return worker_daemon(Settings(home=tmp_path, **given), "http://127.0.0.1:1/api")  # type: ignore[arg-type]  # of each its own

    return make


def test_another_limit_is_another_version(made: Callable[..., Daemon]) -> None:
    assert made().version() == made().version()
    assert made(max_runs=3).version() != made().version()


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "GITHUB_TOKEN", "HARNESS_MODEL", "DOCKER_HOST"])
def test_another_key_or_setting_is_another_version(
    made: Callable[..., Daemon], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = made().version()
    monkeypatch.setenv(name, "tcp://a-word-of-mine")
    assert made().version() != before
    assert "a-word-of-mine" not in made().version()


def test_changed_code_is_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flows").mkdir()
    file = tmp_path / "flows" / "one.py"
    file.touch()
    monkeypatch.setattr(daemon, "_ROOT", tmp_path)
    before = daemon.code_version()
    assert daemon.code_version() == before
    os.utime(file, (2e9, 2e9))
    assert daemon.code_version() != before


ONE_RUN = (
    "echo none; read next; sleep 900 & echo under way; read next; "
    "kill $!; wait; echo over; read next"
)


def test_a_worker_is_idle_unless_it_executes_a_run(made: Callable[..., Daemon]) -> None:
    """A shell stands for the worker, and its child for a run."""
    one = made()
    assert one.idle("")
    one.folder.mkdir(parents=True)
    pipe = subprocess.PIPE
    with subprocess.Popen(("sh", "-c", ONE_RUN), stdin=pipe, stdout=pipe, text=True) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        running = RunningDaemon(url="", pid=shell.pid, process=process_label(shell.pid))
        one.state_file.write_text(dumps(asdict(running)))
        idle = {}
        for _ in range(3):
            said = shell.stdout.readline().strip()
            idle[said] = one.idle("")
            shell.stdin.write("\n")
            shell.stdin.flush()
    assert idle == {"none": True, "under way": False, "over": True}


def test_a_run_retried_before_its_process_ended_does_not_end_the_worker() -> None:
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import WorkerFlowRunResponse

    from flows.host.worker_process import Worker

    async def look() -> list[FlowRun]:
        one = Worker(work_pool_name="none", limit=2)
        one._limiter = CapacityLimiter(2)
        run = FlowRun(flow_id=uuid4())
        one.limiter.acquire_on_behalf_of_nowait(run.id)
        response = WorkerFlowRunResponse(work_pool_id=uuid4(), work_queue_id=uuid4(), flow_run=run)
        return await one._submit_scheduled_flow_runs([response])

    assert asyncio.run(look()) == []
