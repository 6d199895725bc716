"""docs/how-to/scale-out.md: one server on Postgres and Redis, a worker on each machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest

from flows import kept
from flows.kept import Kept
from flows.settings import Settings
from flows.worker import worker
from tests.postgres import free_port, new_postgres_database

pytestmark = pytest.mark.prefect

RUNS = 4


@pytest.fixture
def api(tmp_path: Path) -> Iterator[str]:
    """A Prefect server on Postgres and Redis."""
    if shutil.which("redis-server") is None:
        pytest.skip("no Redis here: apt-get install redis-server")
    database = new_postgres_database().replace("+psycopg:", "+asyncpg:")
    redis, port = free_port(), free_port()
    url = f"http://127.0.0.1:{port}/api"
    env = {
        **os.environ,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_HOME": str(tmp_path / "server"),
        "PREFECT_API_DATABASE_CONNECTION_URL": database,
        "PREFECT_MESSAGING_BROKER": "prefect_redis.messaging",
        "PREFECT_MESSAGING_CACHE": "prefect_redis.messaging",
        "PREFECT_SERVER_EVENTS_CAUSAL_ORDERING": "prefect_redis.ordering",
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect_redis.lease_storage",
        "PREFECT_REDIS_MESSAGING_HOST": "127.0.0.1",
        "PREFECT_REDIS_MESSAGING_PORT": str(redis),
        "PREFECT_SERVER_DOCKET_URL": f"redis://127.0.0.1:{redis}/1",
    }
    serve = (sys.executable, "-m", "prefect", "server", "start", "--port", str(port))
    keep = ("redis-server", "--port", str(redis), "--save", "", "--dir", str(tmp_path))
    log = (tmp_path / "server.log").open("w")
    with (
        log,
        subprocess.Popen(keep, stdout=subprocess.DEVNULL) as store,
        subprocess.Popen(serve, env=env, stdout=log, stderr=log) as server,
    ):
        try:
            _wait_for(url)
            yield url
        finally:
            server.terminate()
            server.wait(60)
            store.terminate()


def _wait_for(url: str) -> None:
    give_up = monotonic() + 150
    while monotonic() < give_up:
        try:
            if httpx.get(f"{url}/health", timeout=5).is_success:
                return
        except httpx.HTTPError:
            sleep(0.3)
    pytest.fail("the server on Postgres and Redis did not answer")


@pytest.fixture
def workers(
    api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Kept, Kept]]:
    """Two workers, each with a home of its own, with one library on Postgres."""
    monkeypatch.setenv("HARNESS_MEMORY_DATA", new_postgres_database())
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "none")
    one, two = (worker(Settings(home=tmp_path / name, max_runs=1), api) for name in ("one", "two"))
    try:
        kept.up(one)
        kept.up(two)
        yield one, two
    finally:
        kept.down(one)
        kept.down(two)


def test_two_workers_share_the_runs_of_one_server(api: str, workers: tuple[Kept, Kept]) -> None:
    with httpx.Client(base_url=api, timeout=30) as server:
        flow = server.post("/flows/", json={"name": "reindex-memory"}).json()["id"]
        made = {
            "name": "shared",
            "flow_id": flow,
            "entrypoint": "flows.upkeep.reindex_memory",
            "work_pool_name": "harness",
            "pull_steps": [{"prefect.deployments.steps.set_working_directory": {"directory": "/"}}],
        }
        deployment = server.post("/deployments/", json=made).raise_for_status().json()["id"]
        asked = f"/deployments/{deployment}/create_flow_run"
        ids = [server.post(asked, json={}).json()["id"] for _ in range(RUNS)]
        give_up = monotonic() + 200
        states: list[str] = []
        while states != ["COMPLETED"] * RUNS and monotonic() < give_up:
            sleep(1)
            states = [server.get(f"/flow_runs/{one}").json()["state_type"] for one in ids]
    assert states == ["COMPLETED"] * RUNS
    logs = [one.log.read_text() for one in workers]
    assert all(any(run in log for run in ids) for log in logs)
