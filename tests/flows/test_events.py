"""`POST /api/events` of docs/how-to/events.md, on a real server."""

from datetime import UTC, datetime
from uuid import uuid4

import httpx
import pytest

from tests.support.waiting import LONG_S, wait_until

pytestmark = pytest.mark.prefect


def test_an_event_starts_a_deployment_with_its_payload(prefect_api: str) -> None:
    from flows.deployed import fix_tests

    with httpx.Client(base_url=prefect_api, timeout=LONG_S) as server:
        flow = server.post("/flows/", json={"name": "fix-tests"}).json()["id"]
        schema = fix_tests.parameters.model_dump()
        made = {"name": "by-event", "flow_id": flow, "parameter_openapi_schema": schema}
        deployment = server.post("/deployments/", json=made).raise_for_status().json()["id"]
        template = {"__prefect_kind": "jinja", "template": "{{ event.payload.repo }}"}
        action = {
            "type": "run-deployment",
            "source": "selected",
            "deployment_id": deployment,
            "parameters": {"repo": template},
        }
        trigger = {
            "type": "event",
            "posture": "Reactive",
            "expect": ["nightly.build.broken"],
            "threshold": 1,
            "within": 0,
        }
        automation = {"name": "broken nights", "trigger": trigger, "actions": [action]}
        server.post("/automations/", json=automation).raise_for_status()

        def runs_of_an_event() -> list[dict[str, object]]:
            """The server may not know the automation yet when the first event comes."""
            server.post("/events", json=[event({"repo": "/srv/git/app"})]).raise_for_status()
            of_it = {"deployments": {"id": {"any_": [deployment]}}}
            found: list[dict[str, object]] = server.post("/flow_runs/filter", json=of_it).json()
            return found

        runs = wait_until(runs_of_an_event, every_s=2)
        assert runs[0]["parameters"] == {"repo": "/srv/git/app"}


def event(payload: dict[str, str]) -> dict[str, object]:
    return {
        "event": "nightly.build.broken",
        "id": str(uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "resource": {"prefect.resource.id": "ci.nightly"},
        "payload": payload,
    }
