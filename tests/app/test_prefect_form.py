"""A run started from the Prefect UI as the tutorial tells it, and one by its schedule."""

from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest
from playwright.sync_api import Page, expect

from app.demo import request as demo
from app.demo.request import make_repository
from flows import local
from flows.household import bring_up, take_down
from flows.settings import SandboxSettings, Settings
from tests.flows.repositories import git

pytestmark = [pytest.mark.browser, pytest.mark.docker, pytest.mark.prefect]

SCRIPT = Path(demo.__file__).with_name("replies.jsonl")
RUN_TIMEOUT_S = 150


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with everything that `harness up` brings."""
    home = tmp_path_factory.mktemp("household")
    settings = Settings(home=home, server_port=0, sandbox=SandboxSettings(pool_size=0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(home / "profile"))
        bring_up(settings, lambda _: None)
        yield local.up(settings).url
        take_down(settings)


def deployment(api: str, name: str) -> str:
    """The id of a deployment."""
    found = httpx.get(f"{api}/deployments/name/{name}/{name}").raise_for_status().json()
    return str(found["id"])


def newest_run(api: str, chosen: str) -> str:
    """The id of the newest flow run of a deployment."""
    of_it = {"deployments": {"id": {"any_": [chosen]}}, "sort": "EXPECTED_START_TIME_DESC"}
    return str(httpx.post(f"{api}/flow_runs/filter", json=of_it).json()[0]["id"])


def completed(api: str, run: str) -> None:
    """Wait until the flow run is completed."""
    give_up = monotonic() + RUN_TIMEOUT_S
    state: dict[str, str] = {}
    while state.get("type") != "COMPLETED" and monotonic() < give_up:
        sleep(0.5)
        state = httpx.get(f"{api}/flow_runs/{run}").json()["state"]
    assert state["type"] == "COMPLETED", state


def test_a_run_is_started_watched_and_read_in_the_prefect_ui(
    api: str, page: Page, tmp_path: Path
) -> None:
    repository = make_repository(tmp_path / "opening-hours")
    ui = api.removesuffix("/api")
    page.goto(f"{ui}/deployments/deployment/{deployment(api, 'fix-tests')}/run")
    submit = page.get_by_role("button", name="Submit")
    submit.click()
    expect(page.get_by_text("is a required property").first).to_be_visible()
    fields = page.locator("textarea")
    fields.nth(0).fill(str(repository))
    fields.nth(1).fill("make the tests pass")
    fields.nth(3).fill(f"scripted/{SCRIPT}")
    submit.click()
    page.get_by_text("scheduled to start").first.wait_for()
    run = newest_run(api, deployment(api, "fix-tests"))
    completed(api, run)
    page.goto(f"{ui}/runs/flow-run/{run}")
    page.get_by_text("Task Runs", exact=True).click()
    page.get_by_role("link", name="verify/test (attempt 1)", exact=True).wait_for()
    page.get_by_text("Artifacts", exact=True).click()
    page.locator("a", has_text=f"report-{run[-8:]}").first.click()
    page.get_by_role("heading", name="fix-tests: success").last.wait_for()
    assert git(repository, "branch", "--list", "harness/*/fix-tests")


def test_a_schedule_fires_by_itself(api: str) -> None:
    every_five = [{"active": True, "schedule": {"interval": 5}}]
    chosen = deployment(api, "reindex-memory")
    httpx.post(f"{api}/deployments/{chosen}/schedules", json=every_five).raise_for_status()
    done = {"deployments": {"id": {"any_": [chosen]}}, "flow_runs": {"state": COMPLETED}}
    give_up = monotonic() + 120
    while monotonic() < give_up:
        runs = httpx.post(f"{api}/flow_runs/filter", json=done).json()
        if any(run["auto_scheduled"] for run in runs):
            return
        sleep(0.5)
    pytest.fail("no scheduled run completed within two minutes")


COMPLETED = {"type": {"any_": ["COMPLETED"]}}
