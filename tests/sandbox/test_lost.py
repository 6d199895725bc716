"""A sandbox that is gone is an exception, never a failed command."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pytest

from contracts.errors import DockerUnavailable, ImageUnavailable, SandboxLost
from contracts.sandbox import Command
from sandbox import supervisor_client
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.reap import list_sandboxes
from sandbox.spec import SandboxLimits, SandboxSpec
from tests.support.sandboxes import SLEEP, StartSandbox, begin
from tests.support.waiting import LONG_S, wait_until
from tests.support.workspace_work import run_as_root

pytestmark = pytest.mark.docker


def test_a_container_removed_under_a_command_is_lost(
    engine: DockerEngine, start_sandbox: StartSandbox
) -> None:
    sandbox = start_sandbox(SandboxLimits())
    with ThreadPoolExecutor(1) as threads:
        running = begin(sandbox, threads)
        engine.remove(sandbox.container_id)
        with pytest.raises(SandboxLost):
            running.result(timeout=LONG_S)
    with pytest.raises(SandboxLost):
        sandbox.exec(Command(argv=("true",)))
    with pytest.raises(SandboxLost):
        sandbox.snapshot()


def test_a_command_that_cannot_be_ended_takes_its_container_along(
    engine: DockerEngine, start_sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_client, "GRACE_S", 0.5)
    sandbox = start_sandbox(SandboxLimits())
    sleep, started = Command(argv=("sh", "-c", "echo on; sleep 60"), timeout_s=2), Event()
    with ThreadPoolExecutor(2) as threads:
        running = threads.submit(sandbox.exec, sleep, lambda _stream, _data: started.set())
        beside = threads.submit(sandbox.exec, SLEEP)
        started.wait()
        with engine.client("stop the supervisor's clock") as client:
            client.api.pause(sandbox.container_id)
        for call in (running, beside):
            with pytest.raises(SandboxLost, match=r"sh -c .* could not be ended within .* removed"):
                call.result()
    assert not engine.has(sandbox.container_id)


def test_a_killed_supervisor_is_lost(engine: DockerEngine, start_sandbox: StartSandbox) -> None:
    sandbox = start_sandbox(SandboxLimits())
    with ThreadPoolExecutor(1) as threads:
        running = begin(sandbox, threads)
        with engine.client("kill process 1 from outside") as client:
            client.api.kill(sandbox.container_id, signal.SIGKILL)
        with pytest.raises(SandboxLost):
            running.result(timeout=LONG_S)


def test_root_inside_cannot_kill_the_supervisor(
    engine: DockerEngine, docker_sandbox: DockerSandbox
) -> None:
    run_as_root(engine, docker_sandbox.container_id, "kill -9 1; kill -19 1")
    assert docker_sandbox.exec(Command(argv=("true",))).ok


def test_a_missing_image_is_named(engine: DockerEngine) -> None:
    spec = SandboxSpec(image="no-such-image:here", owner="harness-tests", run_id="test")
    with pytest.raises(ImageUnavailable, match="no-such-image"):
        DockerSandbox.start(engine, spec)


def test_a_sandbox_that_dies_while_starting_leaves_nothing(engine: DockerEngine) -> None:
    spec = SandboxSpec(image=BASE_IMAGE, owner="harness-tests-none", run_id="test", ttl_s=1e-6)
    with pytest.raises(SandboxLost):
        DockerSandbox.start(engine, spec)
    assert list_sandboxes(engine, "harness-tests-none") == ()


def test_the_error_without_an_engine_names_the_address_and_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/docker.sock")
    spec = SandboxSpec(image=BASE_IMAGE, owner="harness-tests", run_id="test")
    with pytest.raises(DockerUnavailable, match=r"/no/such/docker\.sock.*DOCKER_HOST"):
        DockerSandbox.start(DockerEngine(), spec)


def test_a_killed_harness_leaves_no_container(engine: DockerEngine) -> None:
    program = (
        "from sandbox.container import DockerSandbox\n"
        "from sandbox.engine import DockerEngine\n"
        "from sandbox.spec import SandboxSpec\n"
        "from contracts.sandbox import Command\n"
        f"spec = SandboxSpec(image={BASE_IMAGE!r}, owner='harness-tests-killed', run_id='r')\n"
        "sandbox = DockerSandbox.start(DockerEngine(), spec)\n"
        "sandbox.exec(Command(argv=('sh', '-c', 'echo; setsid sleep 900')),"
        " lambda *_: print('up', flush=True))\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE
    ) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"up\n"
        assert len(list_sandboxes(engine, "harness-tests-killed")) == 1
        os.kill(harness.pid, signal.SIGKILL)
    wait_until(lambda: list_sandboxes(engine, "harness-tests-killed") == ())


def test_the_container_stops_by_itself_after_its_ttl(engine: DockerEngine) -> None:
    spec = SandboxSpec(image=BASE_IMAGE, owner="harness-tests-ttl", run_id="test", ttl_s=1.5)
    with ExitStack() as stack:
        with pytest.raises(SandboxLost):
            stack.enter_context(DockerSandbox.start(engine, spec)).exec(SLEEP)
        wait_until(lambda: list_sandboxes(engine, "harness-tests-ttl") == ())


def test_an_engine_by_ssh_is_refused_with_the_command_that_forwards_its_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://me@build-host")
    with pytest.raises(DockerUnavailable, match=r"ssh -nNT -L \S+ me@build-host"):
        DockerEngine().has("any")
