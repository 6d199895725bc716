"""docs/how-to/scale-out.md: one server on Postgres and Redis, a worker on each machine."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
import yaml

from flows.config.settings import Settings
from flows.recall.library import configured_library
from flows.services import gateway
from flows.services.daemon import Daemon
from flows.services.daemons import worker_daemon
from flows.services.deploy import JOB_COMMAND, WORK_POOL
from flows.services.local_http import is_healthy
from memory.types import PlaybookContent
from sandbox.images import BASE_IMAGE
from tests.support.chroma_server import chroma
from tests.support.fake_ollama import ollama
from tests.support.forks import Fork
from tests.support.own_engine import OwnEngine, own_engine
from tests.support.postgres import free_port, new_postgres_database
from tests.support.repositories import make_repository
from tests.support.waiting import LONG_S, wait_until
from tests.support.workers import make_pool

pytestmark = [pytest.mark.prefect, pytest.mark.docker]

KNOWN = "team:secret"
"""Who may ask the Prefect server, with a password."""

COMPOSE = Path(__file__).parents[3] / "docs" / "how-to" / "scale-out" / "compose.yaml"
ENDS = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


BOTH = """
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from blueprints.dsl import agentic, blueprint, deterministic
from contracts.run import NodeResult

def meet(ctx, sandbox):
    ours = ("docker", "ps", "--quiet", "--filter", f"label=harness.run_id={ctx.run_id}")
    found = subprocess.run(ours, capture_output=True, text=True, check=True).stdout.split()
    seen = Path(__file__).with_name("seen")
    (seen / ctx.run_id).write_text(str(len(found)))
    for _ in range(6000):
        if len(list(seen.iterdir())) == 2:
            return NodeResult.success()
        sleep(0.1)
    return NodeResult.failure("the other run never came")

both = blueprint("both", "Wait for the other", [
    deterministic("meet", "meet", meet),
    agentic("think", "think", prompt=lambda ctx: ctx.intent),
])
"""


@pytest.fixture
def api(tmp_path: Path, fork: Fork, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A Prefect server on Postgres and Redis, with the settings of the compose file."""
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", KNOWN)
    if shutil.which("redis-server") is None:
        pytest.skip("no Redis here: apt-get install redis-server")
    database = new_postgres_database().replace("+psycopg:", "+asyncpg:")
    redis, port = free_port(), free_port()
    url = f"http://127.0.0.1:{port}/api"
    compose = yaml.safe_load(COMPOSE.read_text())
    env = {
        **os.environ,
        **compose["x-prefect"]["environment"],
        "PREFECT_HOME": str(tmp_path / "server"),
        "PREFECT_SERVER_API_AUTH_STRING": KNOWN,
        "PREFECT_API_DATABASE_CONNECTION_URL": database,
        "PREFECT_API_DATABASE_MIGRATE_ON_START": "true",  # there, a service of its own
        "PREFECT_REDIS_MESSAGING_HOST": "127.0.0.1",
        "PREFECT_REDIS_MESSAGING_PORT": str(redis),
        "PREFECT_SERVER_DOCKET_URL": f"redis://127.0.0.1:{redis}/1",
    }
    serve = ("prefect", "server", "start", "--port", str(port))
    keep = ("redis-server", "--port", str(redis), "--save", "", "--dir", str(tmp_path))
    log = (tmp_path / "server.log").open("w")
    with (
        log,
        subprocess.Popen(keep, stdout=subprocess.DEVNULL) as store,
        fork(*serve, cwd=tmp_path, env=env, stdout=log, stderr=log) as server,
    ):
        try:
            wait_until(lambda: server.poll() is not None or is_healthy(f"{url}/health"))
            assert server.poll() is None, (tmp_path / "server.log").read_text()
            yield url
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
            store.terminate()


def known(api: str) -> str:
    """The address, with the password."""
    return api.replace("//", f"//{KNOWN}@")


@pytest.fixture
def second_engine() -> Iterator[OwnEngine]:
    """A Docker engine that shares nothing with the usual one but the base image."""
    if os.geteuid():
        pytest.skip("starting an engine needs root")
    with TemporaryDirectory(prefix="harness-") as name, own_engine(Path(name)) as engine:
        engine.load(BASE_IMAGE)
        yield engine


@pytest.fixture
def chroma_url(tmp_path: Path) -> Iterator[str]:
    with chroma(tmp_path / "chroma") as (url, _):
        yield url


@pytest.fixture
def embedding_url() -> Iterator[str]:
    with ollama() as served:
        yield served.url


@pytest.fixture
def workers(
    api: str,
    chroma_url: str,
    embedding_url: str,
    second_engine: OwnEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Daemon, Daemon]]:
    """Two workers, each with a home and an engine of its own; Postgres and Chroma are served."""
    monkeypatch.setenv("HARNESS_MEMORY_DATA", new_postgres_database())
    monkeypatch.setenv("HARNESS_MEMORY_CHROMA_URL", chroma_url)
    monkeypatch.setenv("HARNESS_MEMORY_HOLDOUT_SHARE", "0")
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__PROVIDER", "ollama")
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__MODEL", "ollama/nomic-embed-text")
    monkeypatch.setenv("HARNESS_MEMORY_EMBEDDING__URL", embedding_url)
    monkeypatch.setenv("HARNESS_ALLOWED_BLUEPRINTS", json.dumps([f"{tmp_path}/both.py:both"]))
    make_pool(known(api), WORK_POOL, runs_by=JOB_COMMAND)
    homes = [Settings(home=tmp_path / name, max_runs=1) for name in ("one", "two")]
    one, two = (worker_daemon(home, api) for home in homes)
    try:
        one.up()
        for name, value in second_engine.env.items():
            monkeypatch.setenv(name, value)
        two.up()
        yield one, two
    finally:
        one.down()
        two.down()
        for home in homes:
            gateway.gateway_daemon(home).down()


def test_two_workers_share_the_runs_of_one_server_each_on_its_own_engine(
    api: str, workers: tuple[Daemon, Daemon], tmp_path: Path
) -> None:
    (tmp_path / "both.py").write_text(BOTH)
    (tmp_path / "seen").mkdir()
    (tmp_path / "replies.jsonl").write_text('{"content": "done"}\n')
    asked = {
        "blueprint": f"{tmp_path}/both.py:both",
        "repo": str(make_repository(tmp_path / "repository")),
        "intent": "rotate the certificates",
        "model": f"scripted/{tmp_path}/replies.jsonl",
    }
    with configured_library() as opened:
        playbook = opened.create(PlaybookContent(title="rotate the certificates")).id
    with httpx.Client(base_url=known(api), timeout=LONG_S) as server:
        flow = server.post("/flows/", json={"name": "run-blueprint"}).json()["id"]
        made = {
            "name": "shared",
            "flow_id": flow,
            "entrypoint": "flows.deployed.run_blueprint",
            "work_pool_name": "harness",
            "pull_steps": [{"prefect.deployments.steps.set_working_directory": {"directory": "/"}}],
        }
        deployment = server.post("/deployments/", json=made).raise_for_status().json()["id"]
        start = f"/deployments/{deployment}/create_flow_run"
        ids = [server.post(start, json={"parameters": asked}).json()["id"] for _ in range(2)]

        def states() -> list[dict[str, str]]:
            return [server.get(f"/flow_runs/{one}").json()["state"] for one in ids]

        wait_until(lambda: {state["type"] for state in states()} <= ENDS, every_s=1)
        ended = states()
    assert [state["type"] for state in ended] == ["COMPLETED"] * 2, ended
    reports = [list((tmp_path / name).glob("runs/*/report.json")) for name in ("one", "two")]
    assert sorted(map(len, reports)) == [1, 1], "each worker did one"
    for [report] in reports:
        assert json.loads(report.read_text())["surfaced"]["playbooks"] == [playbook]
    with configured_library() as opened:
        assert opened.index.keys() == ({opened.get(playbook).key}, set()), "one served index"
        assert opened.get(playbook).counts.successes == 2
    assert [path.read_text() for path in (tmp_path / "seen").iterdir()] == ["1", "1"]
