"""Automations mark a flow run without heartbeat as crashed, or queue it again."""

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

import httpx
import pytest

from flows.services.zombies import create_zombie_automations
from tests.support.waiting import LONG_S, wait_until

pytestmark = pytest.mark.prefect

SILENCE_S = 10
"""The least that Prefect takes."""


@pytest.fixture(scope="module")
def server(own_api: str) -> Iterator[httpx.Client]:
    """A server whose automations are impatient."""
    with httpx.Client(base_url=own_api, timeout=LONG_S) as client:
        assert create_zombie_automations(own_api, silence_s=SILENCE_S)
        assert not create_zombie_automations(own_api)
        yield client


def once_not(server: httpx.Client, run: str, state: str) -> dict[str, str]:
    """The state of the flow run when it is another one."""

    def another() -> dict[str, str]:
        found: dict[str, str] = server.get(f"/flow_runs/{run}").json()["state"]
        return found if found["type"] != state else {}

    return wait_until(another, every_s=0.5)


def test_a_run_without_heartbeat_is_marked_as_crashed(server: httpx.Client) -> None:
    flow = server.post("/flows/", json={"name": "dies"}).json()["id"]
    asked = {"flow_id": flow, "state": {"type": "RUNNING"}}
    run = server.post("/flow_runs/", json=asked).json()["id"]
    server.post("/events", json=[heartbeat(run)]).raise_for_status()
    state = once_not(server, run, "RUNNING")
    assert state["type"] == "CRASHED"
    assert "No heartbeat for 10 s" in state["message"]


def test_a_run_whose_worker_died_before_it_began_is_queued_again(server: httpx.Client) -> None:
    flow = server.post("/flows/", json={"name": "taken"}).json()["id"]
    server.post("/work_pools/", json={"name": "taken", "type": "process"}).raise_for_status()
    made = {"name": "taken", "flow_id": flow, "work_pool_name": "taken"}
    deployment = server.post("/deployments/", json=made).json()["id"]
    run = server.post(f"/deployments/{deployment}/create_flow_run", json={}).json()["id"]
    pending = {"state": {"type": "PENDING", "name": "Submitting"}}
    server.post(f"/flow_runs/{run}/set_state", json=pending).raise_for_status()
    state = once_not(server, run, "PENDING")
    assert state["type"] == "SCHEDULED"
    assert "Not begun for 10 s" in state["message"]
    asked = {"scheduled_before": "2999-01-01T00:00:00Z"}
    waiting = server.post("/work_pools/taken/get_scheduled_flow_runs", json=asked).json()
    assert [one["flow_run"]["id"] for one in waiting] == [run]


def heartbeat(run_id: str) -> dict[str, object]:
    return {
        "event": "prefect.flow-run.heartbeat",
        "id": str(uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "resource": {"prefect.resource.id": f"prefect.flow-run.{run_id}"},
    }
