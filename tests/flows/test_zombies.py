"""A flow run that stops giving heartbeats is marked crashed by the automation."""

from collections.abc import Iterator
from datetime import UTC, datetime
from time import monotonic, sleep
from uuid import uuid4

import httpx
import pytest

from flows.server import asking
from flows.zombies import NAME, watch_for_zombies

pytestmark = pytest.mark.prefect

SILENCE_S = 10
"""The least that Prefect takes."""


@pytest.fixture
def api(prefect_api: str) -> Iterator[str]:
    """A server without the automation, before and after: the one of these tests is impatient."""
    _forget(prefect_api)
    yield prefect_api
    _forget(prefect_api)


def test_a_run_without_heartbeat_is_crashed(api: str) -> None:
    assert watch_for_zombies(api, silence_s=SILENCE_S)
    assert not watch_for_zombies(api)
    with httpx.Client(base_url=api) as server:
        flow = server.post("/flows/", json={"name": "dies"}).json()["id"]
        run = server.post(
            "/flow_runs/", json={"flow_id": flow, "state": {"type": "RUNNING"}}
        ).json()
        server.post("/events", json=[heartbeat(run["id"])]).raise_for_status()
        give_up = monotonic() + 90
        while run["state"]["type"] == "RUNNING" and monotonic() < give_up:
            sleep(0.5)
            run = server.get(f"/flow_runs/{run['id']}").json()
    assert run["state"]["type"] == "CRASHED"
    assert "No heartbeat for 10 s" in run["state"]["message"]


def _forget(api: str) -> None:
    with asking(api) as client:
        for automation in client.read_automations_by_name(NAME):
            client.delete_automation(automation.id)


def heartbeat(run_id: str) -> dict[str, object]:
    return {
        "event": "prefect.flow-run.heartbeat",
        "id": str(uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "resource": {"prefect.resource.id": f"prefect.flow-run.{run_id}"},
    }
