"""docs/how-to/scale-out.md: one server on Postgres and Redis, two machines that share its runs."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from flows.config.settings import Settings
from flows.host.local_stack import bring_up, take_down
from flows.recall.library import configured_library
from flows.services.deploy import start_deployment
from flows.services.local_http import is_healthy
from memory.types import PlaybookContent
from sandbox.images import BASE_IMAGE
from tests.support.fake_ollama import ollama
from tests.support.forks import Fork
from tests.support.own_engine import OwnEngine, own_engine
from tests.support.postgres import free_port, new_postgres_database
from tests.support.repositories import make_repository
from tests.support.waiting import LONG_S, wait_until

pytestmark = [pytest.mark.prefect, pytest.mark.docker]

KNOWN = "team:secret"
"""Who may ask the Prefect server, with a password."""

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "scale-out.md"
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
def chroma_port() -> int:
    return free_port()


@pytest.fixture
def api(
    tmp_path: Path, fork: Fork, monkeypatch: pytest.MonkeyPatch, chroma_port: int
) -> Iterator[str]:
    """The services of the page, by its commands; the compose file has the same settings."""
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", KNOWN)
    if shutil.which("redis-server") is None:
        pytest.skip("no Redis here: apt-get install redis-server")
    redis, port = free_port(), free_port()
    url = f"http://127.0.0.1:{port}/api"
    lines = (PAGE.parent / "scale-out" / "server.env").read_text().splitlines()
    env = {
        **os.environ,
        **dict(line.split("=", 1) for line in lines if not line.startswith("#")),
        "PREFECT_HOME": str(tmp_path / "server"),
        "PREFECT_SERVER_API_AUTH_STRING": KNOWN,
        "PREFECT_API_DATABASE_CONNECTION_URL": new_postgres_database().replace(
            "+psycopg:", "+asyncpg:"
        ),
        "PREFECT_REDIS_MESSAGING_PORT": str(redis),
        "PREFECT_SERVER_DOCKET_URL": f"redis://127.0.0.1:{redis}/1",
    }
    here = {
        "10.0.0.5": "127.0.0.1",
        "4200": str(port),
        "8000": str(chroma_port),
        "/var/lib/harness/chroma": str(tmp_path / "chroma"),
    }
    upgrade, *servers = [[here.get(word, word) for word in command] for command in commands()]
    keep = ("redis-server", "--port", str(redis), "--save", "", "--dir", str(tmp_path))
    with (
        (tmp_path / "server.log").open("w") as log,
        subprocess.Popen(keep, stdout=subprocess.DEVNULL) as store,
    ):
        given = {"cwd": tmp_path, "env": env, "stdout": log, "stderr": log}
        assert fork(*upgrade, **given).wait() == 0, (tmp_path / "server.log").read_text()
        *served, chroma = servers
        begun = [fork(*command, **given) for command in served]
        program = str(Path(sys.executable).with_name(chroma[0]))
        index = subprocess.Popen((program, *chroma[1:]), stdout=log, stderr=log)
        try:
            health = (f"{url}/health", f"http://127.0.0.1:{chroma_port}/api/v2/heartbeat")
            wait_until(lambda: any(one.poll() is not None for one in begun) or all_answer(health))
            assert all_answer(health), (tmp_path / "server.log").read_text()
            yield url
        finally:
            for one in begun:
                one.send_signal(signal.SIGTERM)
            for one in begun:
                one.wait()
            index.kill()
            index.wait()
            store.terminate()


def commands() -> list[list[str]]:
    """Return the commands of the page's section without compose, each as words."""
    blocks = re.findall(r"```\n(.*?)```", PAGE.read_text(), re.DOTALL)
    [block] = [block for block in blocks if "prefect server database upgrade" in block]
    lines = [line for line in block.splitlines() if line.startswith(".venv/bin/")]
    return [line.removeprefix(".venv/bin/").split() for line in lines]


def all_answer(urls: tuple[str, ...]) -> bool:
    return all(is_healthy(url) for url in urls)


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
def embedding_url() -> Iterator[str]:
    with ollama() as served:
        yield served.url


@pytest.fixture
def homes(
    api: str,
    chroma_port: int,
    embedding_url: str,
    second_engine: OwnEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """Two machines of the page, each with a home and an engine of its own."""
    given = {
        "PREFECT_API_URL": api,
        "HARNESS_MEMORY_DATA": new_postgres_database(),
        "HARNESS_MEMORY_CHROMA_URL": f"http://127.0.0.1:{chroma_port}",
        "HARNESS_MEMORY_HOLDOUT_SHARE": "0",
        "HARNESS_MEMORY_EMBEDDING__PROVIDER": "ollama",
        "HARNESS_MEMORY_EMBEDDING__MODEL": "ollama/nomic-embed-text",
        "HARNESS_MEMORY_EMBEDDING__URL": embedding_url,
        "HARNESS_ALLOWED_BLUEPRINTS": json.dumps([f"{tmp_path}/both.py:both"]),
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    one, two = (Settings(home=tmp_path / name, max_runs=1) for name in ("one", "two"))
    with temporary_settings({PREFECT_API_URL: api, PREFECT_API_AUTH_STRING: KNOWN}):
        try:
            up(one)
            for name, value in second_engine.env.items():
                monkeypatch.setenv(name, value)
            up(two)
            yield
        finally:
            take_down(one)
            take_down(two)


def up(home: Settings) -> None:
    members = {member.name: member.state for member in bring_up(home, lambda _: None)}
    assert (members["server"], members["chroma"]) == ("yours", "yours")


@pytest.mark.usefixtures("homes")
def test_two_machines_share_the_runs_of_one_server_each_on_its_own_engine(
    api: str, tmp_path: Path
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
    ids = [start_deployment(api, "run-blueprint", asked) for _ in range(2)]
    with httpx.Client(base_url=known(api), timeout=LONG_S) as server:

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
        assert opened.index.keys() == {opened.get(playbook).key}, "one served index"
        assert opened.get(playbook).counts.successes == 2
    assert [path.read_text() for path in (tmp_path / "seen").iterdir()] == ["1", "1"]
