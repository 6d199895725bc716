"""A flow run that stops giving heartbeats is marked crashed by the automation."""

from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from uuid import uuid4

import httpx
import pytest

from flows import local
from flows.settings import Settings
from flows.zombies import watch_for_zombies

pytestmark = pytest.mark.prefect


def test_a_run_without_heartbeat_is_crashed(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", server_port=0)
    try:
        api = local.up(settings).url
        assert watch_for_zombies(api, silence_s=10)
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
    finally:
        local.down(settings)


def heartbeat(run_id: str) -> dict[str, object]:
    return {
        "event": "prefect.flow-run.heartbeat",
        "id": str(uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "resource": {"prefect.resource.id": f"prefect.flow-run.{run_id}"},
    }
