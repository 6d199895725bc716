"""`harness up` and `down`: a real server with its daemons is started, repaired and stopped."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.doctor import check_requirements
from flows.config.settings import Settings
from flows.execution.wiring import docker_engine, sandbox_owner
from flows.host import local_stack
from flows.host.local_stack import StackMember, bring_up, take_down
from flows.recall.library import configured_library
from flows.services import daemon, local_http, prefect_server
from flows.services.daemon import Daemon, Launch
from flows.services.daemons import chroma_daemon, worker_daemon
from flows.services.deploy import (
    JOB_COMMAND,
    deploy,
    deployment_names,
    missing_worker_warning,
    online_workers,
)
from memory.types import PlaybookContent, PlaybookQuery
from sandbox.images import BASE_IMAGE
from sandbox.process_label import process_label
from sandbox.reap import list_sandboxes, list_snapshots
from sandbox.spec import CREATOR_LABEL, SandboxSpec, container_labels, create_flags
from tests.support.here import here as asked
from tests.support.waiting import LONG_S, wait_until

pytestmark = pytest.mark.prefect

ANOTHER_TOKEN = "another-token-of-mine"
ALL = {"server", "gateway", "pages", "worker", "upkeep"}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    made = Settings(home=tmp_path_factory.mktemp("household"), server_port=0)
    yield made
    take_down(made)


@pytest.fixture(autouse=True)
def same_home(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker goes by is the same in all tests: with another variable it is replaced."""
    monkeypatch.setenv("HARNESS_HOME", str(settings.home))
    monkeypatch.setenv("PREFECT_HOME", str(settings.home / "profile"))


@pytest.fixture
def without_engine(same_home: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/docker.sock")


def up(settings: Settings) -> dict[str, StackMember]:
    return {member.name: member for member in bring_up(settings, lambda _: None)}


def server_url(settings: Settings) -> str:
    return prefect_server.server_daemon(settings).up().url


def online(settings: Settings) -> tuple[str, ...]:
    """The workers, once there is one; the server hears of it when it first asks for work."""
    api = server_url(settings)
    return wait_until(lambda: online_workers(api) or ())


@pytest.mark.usefixtures("without_engine", "from_nothing")
def test_everything_is_started_once_and_reused(settings: Settings) -> None:
    first, second = up(settings), up(settings)
    assert {member.state for member in first.values()} == {"started", "made", "unseen"}
    assert {member.state for member in second.values()} == {"running", "there", "unseen"}
    assert {m.name: m.url for m in first.values()} == {m.name: m.url for m in second.values()}
    found = asked().post(f"{server_url(settings)}/deployments/filter", json={}).json()
    assert {deployment["name"] for deployment in found} == set(deployment_names())
    assert len(online(settings)) == 1
    assert missing_worker_warning(server_url(settings)) is None


def test_all_but_the_server_are_replaced_after_an_upgrade(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def versions() -> dict[str, str]:
        return {one.name: one.version() for one in local_stack.wanted_daemons(settings, "")}

    before = versions()
    monkeypatch.setattr(daemon, "installed_version", lambda _: "9.9")
    assert {name for name, now in versions().items() if now != before[name]} == ALL - {"server"}


@pytest.mark.usefixtures("without_engine")
def test_without_docker_everything_else_starts_and_the_gap_is_reported(settings: Settings) -> None:
    told = up(settings)["leftovers"]
    assert told.state == "unseen"
    assert "no Docker engine answers at unix:///no/such/docker.sock" in told.note


@pytest.mark.docker
def test_leftovers_of_a_dead_run_are_removed_and_reported(settings: Settings) -> None:
    spec = SandboxSpec(image=BASE_IMAGE, owner=sandbox_owner(settings), run_id="dead")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        dead = container_labels(spec) | {CREATOR_LABEL: process_label(process.pid)}
    container = docker_engine().create(create_flags(spec) | {"labels": dead})
    docker_engine().start(container)
    docker_engine().commit(container, dead)
    assert up(settings)["leftovers"] == StackMember(
        "leftovers", "swept", note="1 containers, 1 snapshots"
    )
    assert up(settings)["leftovers"].note == "0 containers, 0 snapshots"
    assert (
        list_sandboxes(docker_engine(), spec.owner)
        == list_snapshots(docker_engine(), spec.owner)
        == ()
    )


def test_the_server_has_metrics(settings: Settings) -> None:
    api = server_url(settings)
    assert "# TYPE" in asked().get(f"{api}/metrics").text


def test_a_dead_worker_is_reported_and_restarted(settings: Settings) -> None:
    up(settings)
    running = worker_daemon(settings, server_url(settings)).status()
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    wait_until(lambda: not running.alive)
    assert [one.name for one in local_stack.crashed_daemons(settings)] == ["worker"]
    told = {check.what: check for check in check_requirements()}
    assert not told["kept"].ok
    assert "the worker died" in told["kept"].found
    assert up(settings)["worker"].state == "started"
    assert local_stack.crashed_daemons(settings) == ()


def test_the_pool_keeps_a_command_that_users_set(settings: Settings) -> None:
    up(settings)
    with httpx.Client(base_url=server_url(settings), timeout=LONG_S) as server:
        made = server.get("/work_pools/harness").json()["base_job_template"]
        command = made["variables"]["properties"]["command"]
        assert command["default"] == JOB_COMMAND
        command["default"] = "nice python -m prefect.engine"
        server.patch("/work_pools/harness", json={"base_job_template": made}).raise_for_status()
        assert up(settings)["deployments"].state == "there"
        assert server.get("/work_pools/harness").json()["base_job_template"] == made


def test_a_worker_with_another_key_replaces_an_idle_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = up(settings)["worker"]
    monkeypatch.setenv("GITHUB_TOKEN", ANOTHER_TOKEN)
    assert up(settings)["worker"].state == "started"
    assert up(settings)["worker"].url != before.url


def test_down_stops_everything_and_keeps_state(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", ANOTHER_TOKEN)  # as it was brought up last
    up(settings)
    assert {member.name for member in take_down(settings)} == ALL
    assert take_down(settings) == ()
    assert not deploy(server_url(settings)).changed


def exporter(home: Path) -> Daemon:
    """A daemon that only the version before knows, as that version records it."""
    return Daemon(
        name="metrics",
        title="the metrics exporter",
        folder=home / "metrics",
        launch=lambda: Launch((sys.executable, "-c", "import time; time.sleep(600)"), os.environ),
        healthy=lambda _: True,
    )


@pytest.mark.usefixtures("without_engine")
def test_up_stops_a_daemon_of_an_earlier_version(settings: Settings) -> None:
    before = exporter(settings.home).up()
    assert up(settings)["metrics"] == StackMember("metrics", "stopped", note="no longer used")
    assert not before.alive
    assert "metrics" not in up(settings)


def test_down_stops_every_daemon_that_is_recorded_in_the_home(tmp_path: Path) -> None:
    here = Settings(home=tmp_path / "other", server_port=0)
    before = exporter(here.home).up()
    assert take_down(here) == (StackMember("metrics", "stopped"),)
    assert not before.alive
    assert take_down(here) == ()


def test_a_configured_server_is_used_and_never_stopped(
    prefect_api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    here = Settings(home=tmp_path / "other", server_port=0)
    with temporary_settings({PREFECT_API_URL: prefect_api}):
        assert up(here)["server"] == StackMember(
            "server", "yours", prefect_api.removesuffix("/api")
        )
        assert [member.name for member in take_down(here)] == [
            "upkeep",
            "worker",
            "pages",
            "gateway",
        ]
    assert asked().get(f"{prefect_api}/health").is_success


def test_a_local_chroma_server_keeps_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Settings(home=tmp_path / "served", server_port=0)
    url = f"http://127.0.0.1:{local_http.free_port()}"
    monkeypatch.setenv("HARNESS_HOME", str(here.home))
    monkeypatch.setenv("HARNESS_MEMORY_CHROMA_URL", url)
    [server] = [one for one in local_stack.wanted_daemons(here, "") if one.name == "chroma"]
    collections = f"{url}/api/v2/tenants/default_tenant/databases/default_database/collections"
    try:
        for _ in range(2):  # the second time it finds what it had
            assert server.up().url == url
            with configured_library() as opened:
                if not opened.list():
                    opened.create(PlaybookContent(title="Mend the build"))
                found = opened.search(PlaybookQuery(text="mend it"))
            assert [hit.playbook.title for hit in found] == ["Mend the build"]
            assert len(asked().get(collections).json()) > 0
            assert server.down()
        monkeypatch.delenv("HARNESS_MEMORY_CHROMA_URL")
        assert "chroma" not in [one.name for one in local_stack.wanted_daemons(here, "")]
    finally:
        server.down()


def test_a_chroma_server_that_runs_already_is_used_and_never_stopped(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{local_http.free_port()}"
    theirs = chroma_daemon(Settings(home=tmp_path / "theirs", server_port=0), url)
    try:
        theirs.up()
        monkeypatch.setenv("HARNESS_MEMORY_CHROMA_URL", url)
        assert up(settings)["chroma"] == StackMember("chroma", "yours", url)
        assert "chroma" not in [member.name for member in take_down(settings)]
        assert theirs.healthy(url)
    finally:
        theirs.down()
