"""Runs take warm sandboxes from the pool; leftovers of dead runs are removed."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from blueprints.dsl import blueprint, deterministic
from flows.config.settings import Settings, load_settings
from flows.execution.wiring import build_dependencies, docker_engine, sandbox_owner
from flows.host import pool
from nodes.commands import command
from sandbox.images import BASE_IMAGE
from sandbox.process_label import process_label
from sandbox.reap import SandboxInfo, list_sandboxes, reap
from sandbox.spec import (
    CREATOR_LABEL,
    OWNER_LABEL,
    SandboxLimits,
    SandboxSpec,
    container_labels,
    create_flags,
)
from tests.support.flows import Ask
from tests.support.waiting import LONG_S, wait_until

pytestmark = pytest.mark.docker

NOTHING = blueprint("nothing", "Nothing", [deterministic("do", "do nothing", command("true"))])


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    monkeypatch.setenv("HARNESS_SANDBOX__POOL_SIZE", "1")
    monkeypatch.setenv("HARNESS_SANDBOX__LIMITS__MEMORY_MB", "256")
    made = load_settings()
    yield made
    pool.pool_daemon(made).down()
    reap(docker_engine(), sandbox_owner(made), everything=True)


def warm(settings: Settings) -> list[SandboxInfo]:
    ours = sandbox_owner(settings)
    started = {one.id for one in docker_engine().running({OWNER_LABEL: ours})}
    found = list_sandboxes(docker_engine(), ours)
    return [s for s in found if s.state == "warm, waiting" and s.id in started]


def one_warm(settings: Settings) -> SandboxInfo:
    """The one warm sandbox, once it is there."""
    (found,) = wait_until(lambda: warm(settings))
    return found


def used_by_a_run(settings: Settings, ask: Ask) -> str:
    opened = build_dependencies(settings).open_sandbox(ask(NOTHING), "r-1", lambda _: None, None)
    with opened as found:
        name = found.sandbox.read_file("/etc/hostname").decode().strip()
        assert name == "sandbox"
        (info,) = [
            s
            for s in list_sandboxes(docker_engine(), sandbox_owner(settings))
            if s.state == "in use"
        ]
    return info.id


def test_a_run_takes_a_warm_sandbox_and_the_next_run_another(settings: Settings, ask: Ask) -> None:
    pool.pool_daemon(settings).up()
    first = one_warm(settings)
    assert used_by_a_run(settings, ask) == first.id
    second = one_warm(settings)
    assert second.id != first.id
    assert used_by_a_run(settings, ask) == second.id


def test_the_pool_is_replaced_when_its_settings_change(
    settings: Settings, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.pool_daemon(settings).up()
    small = one_warm(settings)
    limits = SandboxLimits(memory_mb=257)
    other = settings.sandbox.model_copy(update={"limits": limits})
    changed = settings.model_copy(update={"sandbox": other})
    assert used_by_a_run(changed, ask) != small.id
    monkeypatch.setenv("HARNESS_SANDBOX__LIMITS__MEMORY_MB", "257")
    pool.pool_daemon(changed).up()
    large = one_warm(changed)
    assert large.id != small.id
    assert used_by_a_run(changed, ask) == large.id
    assert pool.pool_daemon(changed).down()
    assert warm(changed) == []


def test_the_pool_waits_for_a_missing_docker_engine(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stop = threading.Event()
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/docker.sock")
    monkeypatch.setattr(pool, "RETRY_S", 0.1)
    keeper = threading.Thread(target=pool.keep_filled, args=(settings, stop))
    keeper.start()
    told = "no warm sandbox for now: no Docker engine answers"
    wait_until(lambda: told in capsys.readouterr().err)
    assert keeper.is_alive()
    monkeypatch.delenv("DOCKER_HOST")
    one_warm(settings)
    stop.set()
    keeper.join(LONG_S)
    assert warm(settings) == []


def test_a_run_removes_what_a_dead_run_left(settings: Settings, ask: Ask) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        dead = process_label(process.pid)
    spec = SandboxSpec(image=BASE_IMAGE, owner=sandbox_owner(settings), run_id="dead")
    left = docker_engine().create(
        create_flags(spec) | {"labels": container_labels(spec) | {CREATOR_LABEL: dead}}
    )
    docker_engine().start(left)
    used_by_a_run(settings, ask)
    assert left not in {
        info.id for info in list_sandboxes(docker_engine(), sandbox_owner(settings))
    }
