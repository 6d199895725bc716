"""Deployments that users make: what they start, and that nothing of a user's is lost."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.cli.request_options import located_blueprint
from contracts.errors import BadInput, BlueprintNotFound, OptionInvalid, SettingsInvalid
from flows.config.settings import Settings
from flows.deployed import check_deployment, configured_deployments
from flows.runs.deployment_request import DeploymentRequest
from flows.services.deploy import deploy
from flows.services.user_deployments import (
    list_deployments,
    make_configured,
    make_deployment,
    remove_deployment,
)


def nightly(**fields: object) -> DeploymentRequest:
    given = {"name": "nightly", "blueprint": "fix-tests", "repo": "/srv/shop", **fields}
    return DeploymentRequest.of(**given)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "a/b"}, "1 to 100 characters"),
        ({"name": " "}, "1 to 100 characters"),
        ({"cron": "0 3 * * *", "interval_s": 600}, "not both"),
        ({"cron": "0 3 * * *", "timezone": "Mars/North"}, "no time zone 'Mars/North'"),
        ({"wait_approvals_s": 60}, "suspended"),
        ({"repo": "https://ann:s3cret@git.example.org/app"}, r"https://\*\*\*@git.example.org/app"),
        ({"options": {"colour": "red"}}, "no option 'colour'"),
        ({"options": {"test_timeout": "soon"}}, "test_timeout"),
    ],
)
def test_a_deployment_that_cannot_run_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        check_deployment(nightly(**fields), Settings())


def test_a_deployment_names_the_whole_path_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.md").touch()
    (tmp_path / "mine.py").touch()
    found = [located_blueprint(ref) for ref in ("mine.md", "mine.py:mine", "gone.md", "review")]
    assert found == [f"{tmp_path}/mine.md", f"{tmp_path}/mine.py:mine", "gone.md", "review"]


def test_a_file_that_the_settings_do_not_allow_is_refused() -> None:
    with pytest.raises(BlueprintNotFound, match="allowed_blueprints"):
        check_deployment(nightly(blueprint="/srv/mine.py:mine"), Settings())


@pytest.mark.parametrize(
    "table",
    [
        {"repo": "/srv/shop"},
        {"blueprint": "fix-tests", "repo": "/srv/shop", "crom": "0 3 * * *"},
        {"blueprint": "fix-tests", "repo": "/srv/shop", "cron": "0 3 * * *", "interval_s": 60},
    ],
)
def test_a_table_that_cannot_be_used_is_named(table: dict[str, object]) -> None:
    with pytest.raises(SettingsInvalid, match=r"\[deployments\.nightly\]"):
        configured_deployments(Settings(deployments={"nightly": table}))


@pytest.fixture
def server(own_api: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=own_api, timeout=60) as client:
        yield client


def read(server: httpx.Client, name: str) -> dict[str, object]:
    answer = server.get(f"/deployments/name/run-blueprint/{name}").raise_for_status()
    return dict(answer.json())


def schedules(server: httpx.Client, name: str) -> list[dict[str, object]]:
    found = server.get(f"/deployments/{read(server, name)['id']}/schedules").json()
    return [one["schedule"] for one in found]


@pytest.mark.prefect
def test_a_deployment_has_its_parameters_and_its_schedule(
    own_api: str, server: httpx.Client
) -> None:
    request = nightly(
        cron="30 3 * * 1-5", timezone="Europe/Berlin", options={"test": "make test"}, push=True
    )
    make_deployment(own_api, request)
    found = read(server, "nightly")
    assert found["parameters"] == {
        "blueprint": "fix-tests",
        "repo": "/srv/shop",
        "options": {"test": "make test"},
        "push": True,
    }
    assert found["enforce_parameter_schema"] is True
    (schedule,) = schedules(server, "nightly")
    assert (schedule["cron"], schedule["timezone"]) == ("30 3 * * 1-5", "Europe/Berlin")


@pytest.mark.prefect
def test_a_run_of_a_deployment_gets_its_parameters(own_api: str, server: httpx.Client) -> None:
    make_deployment(own_api, nightly(intent="make it green"))
    path = f"/deployments/{read(server, 'nightly')['id']}/create_flow_run"
    run = server.post(path, json={}).raise_for_status().json()
    assert run["parameters"]["intent"] == "make it green"


@pytest.mark.prefect
def test_deploying_again_replaces_the_schedule(own_api: str, server: httpx.Client) -> None:
    make_deployment(own_api, nightly(cron="30 3 * * *"))
    make_deployment(own_api, nightly(interval_s=3600))
    (schedule,) = schedules(server, "nightly")
    assert schedule["interval"] == 3600
    make_deployment(own_api, nightly())
    assert schedules(server, "nightly") == []


@pytest.mark.prefect
def test_a_schedule_that_prefect_refuses_is_bad_input(own_api: str) -> None:
    with pytest.raises(BadInput, match="'99 3'"):
        make_deployment(own_api, nightly(cron="99 3"))


@pytest.mark.prefect
def test_what_users_changed_stays_until_the_table_changes(
    own_api: str, server: httpx.Client
) -> None:
    assert make_configured(own_api, [nightly(cron="30 3 * * *")]) == ("nightly",)
    path = f"/deployments/{read(server, 'nightly')['id']}"
    server.patch(path, json={"paused": True, "tags": ["team-a"]}).raise_for_status()
    deploy(own_api)
    assert make_configured(own_api, [nightly(cron="30 3 * * *")]) == ()
    found = read(server, "nightly")
    assert (found["paused"], found["tags"]) == (True, ["team-a"])
    assert make_configured(own_api, [nightly(cron="30 4 * * *")]) == ("nightly",)
    assert schedules(server, "nightly")[0]["cron"] == "30 4 * * *"


@pytest.mark.prefect
def test_an_upgrade_gives_deployments_of_users_the_new_form(
    own_api: str, server: httpx.Client
) -> None:
    make_deployment(own_api, nightly())
    wanted = read(server, "nightly")["parameter_openapi_schema"]
    old = {"type": "object", "properties": {}}
    path = f"/deployments/{read(server, 'nightly')['id']}"
    server.patch(
        path, json={"parameter_openapi_schema": old, "enforce_parameter_schema": False}
    ).raise_for_status()
    assert deploy(own_api).changed
    assert read(server, "nightly")["parameter_openapi_schema"] == wanted


@pytest.mark.prefect
def test_deployments_are_listed_and_removed_except_our_own(
    own_api: str, server: httpx.Client
) -> None:
    deploy(own_api)
    make_deployment(own_api, nightly(cron="30 3 * * *", timezone="Europe/Berlin"))
    rows = {row.name: row for row in list_deployments(own_api)}
    assert rows["nightly"].schedule == "30 3 * * * Europe/Berlin"
    assert rows["nightly"].repo == "/srv/shop"
    assert "fix-tests" in rows
    assert "zz-reap-sandboxes" not in rows
    remove_deployment(own_api, "nightly")
    assert "nightly" not in {row.name for row in list_deployments(own_api)}
    with pytest.raises(OptionInvalid, match="no deployment 'nightly'"):
        remove_deployment(own_api, "nightly")
    with pytest.raises(OptionInvalid, match="pause it"):
        remove_deployment(own_api, "fix-tests")
