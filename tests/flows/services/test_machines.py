"""Machines that work for one server: how they must be set, and whose run is whose."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.client.schemas.objects import FlowRun, State, StateType, Worker, WorkerStatus
from prefect.states import AwaitingRetry, Scheduled

from contracts.errors import SettingsInvalid
from flows.config.settings import Settings
from flows.host import worker_process
from flows.orchestration.start import connected_to
from flows.services.deploy import create_pool
from flows.services.machines import (
    DIED,
    WORKER_LABEL,
    DeathWatch,
    Machine,
    join,
    taken_over,
    takes_over,
    this_machine,
    why_left,
)
from tests.support.waiting import LONG_S, wait_until


def machine(name: str, *allowed: str, installed: tuple[str, ...] = ("review",)) -> Machine:
    return Machine(name=name, installed=installed, allowed_blueprints=allowed, settings={})


ONE, TWO = machine("one", "/srv/*.md"), machine("two")
BOTH = {"one": ONE, "two": TWO}


def scheduled(blueprint: str, state: State[object] | None = None, **fields: object) -> FlowRun:
    return FlowRun(
        flow_id=uuid4(),
        parameters={"blueprint": blueprint},
        state=state or Scheduled(),
        **fields,  # type: ignore[arg-type]  # of each its own
    )


def test_a_machine_leaves_a_run_whose_blueprint_only_another_may_load() -> None:
    run = scheduled("/srv/nightly.md")
    assert why_left(run, ONE, BOTH, has_files=False) is None
    why = "it may not load '/srv/nightly.md', and one may"
    assert why_left(run, TWO, BOTH, has_files=False) == why
    plugin = scheduled("plugin")
    able = {**BOTH, "three": machine("three", installed=("plugin",))}
    assert why_left(plugin, ONE, able, has_files=False) == "it may not load 'plugin', and three may"


def test_a_run_that_no_machine_may_execute_is_taken_to_fail_with_its_reason() -> None:
    run = scheduled("/elsewhere/nightly.md")
    assert why_left(run, TWO, BOTH, has_files=False) is None


def test_a_run_that_has_begun_stays_with_its_files() -> None:
    begun = scheduled("review", run_count=1, labels={WORKER_LABEL: "one"})
    assert why_left(begun, ONE, BOTH, has_files=False) is None
    assert why_left(begun, TWO, BOTH, has_files=True) is None
    assert why_left(begun, TWO, {"two": TWO}, has_files=False) is None, "that machine is forgotten"
    why = "its files are on one, which goes on with it"
    assert why_left(begun, TWO, BOTH, has_files=False) == why


def test_a_run_whose_machine_died_goes_to_any_that_may_load_it() -> None:
    died: State[object] = AwaitingRetry(message=DIED)
    begun = {"run_count": 1, "labels": {WORKER_LABEL: "one"}}
    assert why_left(scheduled("review", died, **begun), TWO, BOTH, has_files=False) is None
    left = why_left(scheduled("/srv/nightly.md", died, **begun), TWO, BOTH, has_files=False)
    assert left == "it may not load '/srv/nightly.md', and one may"


def test_a_run_notices_that_another_machine_has_taken_it() -> None:
    before = scheduled("review", labels={WORKER_LABEL: "one"})
    assert not taken_over(before, before)
    assert taken_over(before, scheduled("review", labels={WORKER_LABEL: "two"}))


START = datetime(2026, 1, 1, tzinfo=UTC)


def worker(name: str, *, online: bool, beat_s: float = 0) -> Worker:
    """A worker whose last heartbeat was so many seconds after the start."""
    return Worker(
        name=name,
        work_pool_id=uuid4(),
        status=WorkerStatus.ONLINE if online else WorkerStatus.OFFLINE,
        last_heartbeat_time=START + timedelta(seconds=beat_s),
    )


def test_a_machine_is_dead_when_all_its_workers_are_silent_in_two_looks() -> None:
    watch = DeathWatch("two")
    two = worker("two", online=True, beat_s=5)
    watch.look([two], now_s=0)
    gone = worker("one", online=False, beat_s=12)
    lost_a_process = [gone, worker("one-upkeep", online=True, beat_s=40), two]
    assert watch.look(lost_a_process, now_s=10) == watch.look(lost_a_process, now_s=20) == set()
    all_silent = [gone, worker("one-upkeep", online=False, beat_s=40), two]
    assert [watch.look(all_silent, now_s=now) for now in (30, 40)] == [set(), {"one"}]


def test_no_machine_is_dead_because_the_server_was_away() -> None:
    watch = DeathWatch("two")
    watch.look([worker("two", online=True, beat_s=5)], now_s=0)
    silent = worker("one", online=False, beat_s=12)
    back = [silent, worker("two", online=True, beat_s=300)]
    looks = [watch.look(back, now_s=now) for now in (300, 310, 320)]
    assert looks == [set()] * 3, "it has not reached the server since"
    died = [worker("one", online=False, beat_s=330), worker("two", online=True, beat_s=360)]
    assert [watch.look(died, now_s=now) for now in (340, 350)] == [set(), {"one"}]


def test_one_of_the_machines_that_are_online_takes_over() -> None:
    silent = [worker("one", online=False), worker("one-upkeep", online=True)]
    rest = [worker("two", online=True), worker("three", online=True)]
    for workers in (rest, [*silent, *rest]):
        assert [takes_over(workers, name) for name in ("one", "two", "three")] == [
            False,
            False,
            True,
        ]


@pytest.fixture
def server(own_api: str) -> Iterator[httpx.Client]:
    create_pool(own_api)
    with httpx.Client(base_url=own_api, timeout=LONG_S) as client:
        yield client


def send_heartbeat(server: httpx.Client, name: str, *, every_s: int) -> None:
    beat = {"name": name, "heartbeat_interval_seconds": every_s}
    server.post("/work_pools/harness/workers/heartbeat", json=beat).raise_for_status()


@pytest.mark.prefect
def test_a_machine_that_is_set_otherwise_may_not_join(
    own_api: str, server: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = this_machine(Settings(home=tmp_path / "first", max_runs=2))
    second = Settings(home=tmp_path / "second", allowed_blueprints=("/srv/*.md",))
    join(own_api, first)
    join(own_api, this_machine(second))
    other = this_machine(second.model_copy(update={"model": "gemini/other", "agent": "pi"}))
    join(own_api, other)  # the first one is not online
    send_heartbeat(server, first.name, every_s=600)
    join(own_api, this_machine(second))
    with pytest.raises(SettingsInvalid) as refused:
        join(own_api, other)
    assert str(refused.value).startswith(
        f'setting agent is "pi" here and "native" on {first.name}, which works for the same '
        "Prefect server (setting model differ too). Set it alike"
    )
    monkeypatch.setenv("HARNESS_POLICY_PROTECTED_ALSO", '["*.sql"]')
    with pytest.raises(
        SettingsInvalid, match=r"setting policy.protected_also is \[\"\*.sql\"\] he"
    ):
        join(own_api, this_machine(second))
    monkeypatch.setenv("HARNESS_MEMORY_DATA", "postgresql+psycopg://ann:secret@db/harness")
    with pytest.raises(SettingsInvalid, match='data is "postgresql harness" here') as named:
        join(own_api, this_machine(second))
    assert "secret" not in str(named.value)


@pytest.mark.prefect
def test_what_a_dead_machine_had_taken_is_scheduled_again_and_may_be_taken(
    own_api: str, server: httpx.Client, tmp_path: Path
) -> None:
    alike = this_machine(Settings(home=tmp_path))
    dead, gone = (alike.model_copy(update={"name": f"machine-{name}"}) for name in ("dead", "none"))
    join(own_api, dead)
    flow = server.post("/flows/", json={"name": "dies"}).json()["id"]
    made = {"name": "dies", "flow_id": flow, "work_pool_name": "harness"}
    deployment = server.post("/deployments/", json=made).json()["id"]

    def run_of(name: str, *states: str) -> str:
        start = f"/deployments/{deployment}/create_flow_run"
        run = str(server.post(start, json={}).json()["id"])
        server.patch(f"/flow_runs/{run}/labels", json={WORKER_LABEL: name}).raise_for_status()
        for state in states:
            server.post(f"/flow_runs/{run}/set_state", json={"state": {"type": state}})
        return run

    pending, running = run_of(dead.name, "PENDING"), run_of(dead.name, "PENDING", "RUNNING")
    others, ended = run_of(gone.name, "PENDING"), run_of(dead.name, "PENDING", "FAILED")

    def state(run: str) -> tuple[str, str]:
        found = server.get(f"/flow_runs/{run}").json()["state"]
        return found["type"], found["message"]

    async def look() -> bool:
        # Its name is the first among the workers of this server.
        async with worker_process.Worker(name="a", work_pool_name="harness", limit=1) as alive:
            alive.machine = machine("a")
            await alive.sync_with_backend()
            for name in (dead.name, f"{dead.name}-upkeep"):
                send_heartbeat(server, name, every_s=1)
            while state(running)[0] == "RUNNING":
                await alive.sync_with_backend()
                await asyncio.sleep(0.5)
            return await alive._takes(await alive.client.read_flow_run(UUID(running)))

    with connected_to(own_api):
        assert asyncio.run(look())
    again = (StateType.SCHEDULED.value, DIED)
    assert [state(run) for run in (pending, running)] == [again, again]
    assert [state(run)[0] for run in (others, ended)] == ["PENDING", "FAILED"]
    found = server.get(f"/flow_runs/{running}").json()
    due = found["state"]["state_details"]["scheduled_time"]
    assert due == found["expected_start_time"], "it goes before runs that were asked for later"


WATCHED = """
import sys
from threading import Event
from flows.orchestration.compile import exit_when_cancelled
from flows.orchestration.start import connected_to

with connected_to(sys.argv[1]), exit_when_cancelled(sys.argv[2], every_s=0.1):
    Event().wait()
"""


@pytest.mark.prefect
def test_the_process_of_a_run_that_was_taken_over_ends_and_leaves_the_flow_run_as_it_is(
    own_api: str, server: httpx.Client
) -> None:
    flow = server.post("/flows/", json={"name": "dies"}).json()["id"]
    asked = {"flow_id": flow, "state": {"type": "RUNNING"}}
    run = server.post("/flow_runs/", json=asked).json()["id"]
    names = count()
    with subprocess.Popen((sys.executable, "-c", WATCHED, own_api, run)) as process:

        def has_ended() -> bool:
            # It compares with the label that it saw first, whenever that was.
            taken = {WORKER_LABEL: f"machine-{next(names)}"}
            server.patch(f"/flow_runs/{run}/labels", json=taken).raise_for_status()
            return process.poll() is not None

        try:
            wait_until(has_ended)
        finally:
            process.kill()
    assert process.returncode == 0
    assert server.get(f"/flow_runs/{run}").json()["state"]["type"] == "RUNNING"
