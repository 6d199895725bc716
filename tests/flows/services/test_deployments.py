"""What users set on a deployment stays when another home or another version deploys again."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from flows.config.settings import Settings
from flows.services.deploy import UPKEEP_PREFIX, deploy, deployment_names
from flows.services.zombies import create_zombie_automations

pytestmark = pytest.mark.prefect

OURS = {"entrypoint", "version", "version_id", "parameter_openapi_schema", "pull_steps", "updated"}
"""Fields of a deployment that Harness sets, and those that the server changes with them."""

SCHEDULE = {
    "schedule": {"cron": "0 5 * * 1", "timezone": "Europe/Berlin"},
    "active": False,
    "parameters": {"repo": "/srv/project"},
}
EDITS = {
    "description": "mine",
    "tags": ["team-a"],
    "parameters": {"repo": "/srv/project"},
    "concurrency_limit": 2,
    "concurrency_options": {"collision_strategy": "CANCEL_NEW"},
    "paused": True,
    "enforce_parameter_schema": False,
    "job_variables": {"env": {"TEAM": "a"}},
    "work_pool_name": "harness",
    "work_queue_name": "night",
}


@pytest.fixture
def server(own_api: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=own_api, timeout=60) as client:
        yield client


def read(server: httpx.Client, name: str) -> dict[str, object]:
    flow = name.removeprefix(UPKEEP_PREFIX)
    said = server.get(f"/deployments/name/{flow}/{name}").raise_for_status().json()
    return {key: value for key, value in said.items() if key not in OURS}


def schedules(server: httpx.Client, name: str) -> list[dict[str, Any]]:
    """Return the fields of each schedule of the deployment that a user can set."""
    found = server.get(f"/deployments/{read(server, name)['id']}/schedules").json()
    return [{field: one[field] for field in ("schedule", "active", "parameters")} for one in found]


def edited(server: httpx.Client, name: str) -> dict[str, object]:
    """The deployment, after a user changed all that a user can."""
    which = read(server, name)["id"]
    server.patch(f"/deployments/{which}", json=EDITS).raise_for_status()
    for one in server.get(f"/deployments/{which}/schedules").json():
        server.delete(f"/deployments/{which}/schedules/{one['id']}").raise_for_status()
    server.post(f"/deployments/{which}/schedules", json=[SCHEDULE]).raise_for_status()
    return read(server, name)


@pytest.mark.parametrize("name", ["fix-tests", "zz-reap-sandboxes"])
def test_what_users_set_survives_another_home_on_the_same_server(
    own_api: str, server: httpx.Client, name: str
) -> None:
    deploy(own_api)
    users = edited(server, name)
    assert users["tags"] == ["team-a"]
    assert not deploy(own_api).changed
    assert read(server, name) == users


def test_what_users_set_survives_an_upgrade_that_changes_the_form(
    own_api: str, server: httpx.Client
) -> None:
    deploy(own_api)
    now = server.get("/deployments/name/fix-tests/fix-tests").json()
    users = edited(server, "fix-tests")
    before = {
        "entrypoint": "flows.deployed.fix",
        "version": "before",
        "parameter_openapi_schema": {"type": "object", "properties": {"url": {"type": "string"}}},
        "pull_steps": [],
    }
    server.patch(f"/deployments/{now['id']}", json=before).raise_for_status()
    assert deploy(own_api).notes == ()
    assert read(server, "fix-tests") == users
    after = server.get("/deployments/name/fix-tests/fix-tests").json()
    assert {field: after[field] for field in before} == {field: now[field] for field in before}


def made_before(server: httpx.Client, flow: str, seconds: float) -> None:
    """An upkeep deployment as earlier versions made it."""
    made = {
        "name": flow,
        "flow_id": server.post("/flows/", json={"name": flow}).json()["id"],
        "entrypoint": f"flows.upkeep.{flow.replace('-', '_')}",
        "work_pool_name": "harness",
        "schedules": [{"schedule": {"interval": seconds}}],
    }
    server.post("/deployments/", json=made).raise_for_status()


def alike(found: dict[str, object]) -> dict[str, object]:
    """Return the fields that a deployment keeps when it is made again."""
    ids = {"id", "name", "created", "schedules", "global_concurrency_limit", "work_queue_id"}
    return {key: value for key, value in found.items() if key not in ids}


def test_an_upkeep_deployment_of_an_earlier_version_gets_its_new_name_and_keeps_what_users_set(
    own_api: str, server: httpx.Client
) -> None:
    deploy(own_api)
    server.delete(f"/deployments/{read(server, 'zz-prune-memory')['id']}").raise_for_status()
    made_before(server, "prune-memory", 600)
    users = edited(server, "prune-memory")
    before = schedules(server, "prune-memory")
    assert deploy(own_api).changed
    assert server.get("/deployments/name/prune-memory/prune-memory").status_code == 404
    now = read(server, "zz-prune-memory")
    assert alike(now) == alike(users)
    assert schedules(server, "zz-prune-memory") == before
    limit = now["global_concurrency_limit"]
    assert isinstance(limit, dict)
    assert limit["limit"] == 2
    assert not deploy(own_api).changed


def test_the_schedule_that_looked_for_comments_is_not_taken_over_and_a_persons_is(
    own_api: str, server: httpx.Client
) -> None:
    for seconds, kept in ((300.0, []), (420.0, [420.0])):
        deploy(own_api)
        server.delete(f"/deployments/{read(server, 'zz-answer-comments')['id']}")
        made_before(server, "answer-comments", seconds)
        deploy(own_api)
        found = schedules(server, "zz-answer-comments")
        assert [one["schedule"]["interval"] for one in found] == kept


def test_default_parameters_that_do_not_fit_the_new_form_stay_and_are_named(
    own_api: str, server: httpx.Client
) -> None:
    deploy(own_api)
    which = server.get("/deployments/name/review/review").json()["id"]
    theirs = {"push": {"branch": "main"}}
    edits = {
        "enforce_parameter_schema": True,
        "parameter_openapi_schema": {"type": "object", "properties": {"push": {}}},
        "parameters": theirs,
        "version": "before",
    }
    server.patch(f"/deployments/{which}", json=edits).raise_for_status()
    [note] = deploy(own_api).notes
    assert "deployment 'review': its default parameters do not fit" in note
    found = server.get(f"/deployments/{which}").json()
    assert found["parameters"] == theirs
    assert found["version"] != "before"
    server.patch(f"/deployments/{which}", json={"parameters": {}}).raise_for_status()


def test_a_deployment_whose_flow_is_gone_stays_and_is_named(
    own_api: str, server: httpx.Client
) -> None:
    deploy(own_api)
    flow = server.post("/flows/", json={"name": "retired"}).json()["id"]
    retired = {
        "name": "retired",
        "flow_id": flow,
        "entrypoint": "flows.deployed.retired",
        "work_pool_name": "harness",
        "schedules": [SCHEDULE],
    }
    which = server.post("/deployments/", json=retired).raise_for_status().json()["id"]
    [note] = deploy(own_api).notes
    assert "deployment 'retired': this version of Harness has no flow" in note
    assert len(server.get(f"/deployments/{which}").json()["schedules"]) == 1
    server.delete(f"/deployments/{which}").raise_for_status()


def test_five_homes_may_deploy_to_a_new_server_at_once(own_server: Settings) -> None:
    from flows.services import prefect_server

    api = prefect_server.server_daemon(own_server).up().url
    with ThreadPoolExecutor(5) as threads:
        done = list(threads.map(deploy, [api] * 5))
        list(threads.map(create_zombie_automations, [api] * 5))
    assert all(one.notes == () for one in done)
    found = httpx.post(f"{api}/deployments/filter", json={}).json()
    assert sorted(one["name"] for one in found) == sorted(deployment_names())
    automations = httpx.post(f"{api}/automations/filter", json={}).json()
    assert len({one["name"] for one in automations}) == len(automations) == 2
