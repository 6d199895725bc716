"""An engine that is not the machine's own: behind TLS it is the same, and it may die any time."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from docker.errors import NotFound

from contracts.errors import DockerUnavailable, SandboxLost
from contracts.sandbox import Command
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.reap import list_sandboxes
from sandbox.spec import SandboxSpec
from tests.support.own_engine import OwnEngine, make_certificates, own_engine
from tests.support.sandboxes import begin
from tests.support.waiting import LONG_S, wait_until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(os.geteuid() != 0, reason="starting an engine needs root"),
]

ROOT = Path(__file__).parents[2]
SPEC = SandboxSpec(image=BASE_IMAGE, owner="harness-tests-tls", run_id="test")


@pytest.fixture(scope="module")
def remote() -> Iterator[OwnEngine]:
    """An engine behind TLS that has the base image."""
    with TemporaryDirectory(prefix="harness-") as name, own_engine(Path(name)) as remote:
        remote.load(BASE_IMAGE)
        yield remote


@pytest.fixture
def remote_engine(remote: OwnEngine, monkeypatch: pytest.MonkeyPatch) -> DockerEngine:
    for name, value in remote.env.items():
        monkeypatch.setenv(name, value)
    return DockerEngine()


def test_the_contract_suite_passes_on_a_remote_engine(remote: OwnEngine) -> None:
    done = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "docker",
         "tests/contract/test_sandbox_commands.py", "tests/contract/test_sandbox_files.py",
         "tests/contract/test_forward.py"),
        cwd=ROOT, env={**os.environ, **remote.env}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_remote_sandbox_mounts_nothing_and_is_removed(
    remote: OwnEngine, remote_engine: DockerEngine
) -> None:
    with DockerSandbox.start(remote_engine, SPEC) as sandbox:
        told = remote.docker("inspect", "-f", "{{json .HostConfig.Binds}} {{json .Mounts}}",
                             sandbox.container_id).stdout  # fmt: skip
        assert told == b"null []\n"
        assert len(list_sandboxes(remote_engine, SPEC.owner)) == 1
    assert list_sandboxes(remote_engine, SPEC.owner) == ()


def test_streams_in_both_directions_at_once_survive_tls(remote_engine: DockerEngine) -> None:
    data = os.urandom(1 << 20) * 30
    with DockerSandbox.start(remote_engine, SPEC) as sandbox:
        command = Command(argv=("cat",), stdin=data, output_limit=len(data))
        assert sandbox.exec(command).stdout == data


@pytest.mark.parametrize("foreign", ["engine", "client"])
def test_with_a_foreign_certificate_there_is_no_engine(
    remote: OwnEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, foreign: str
) -> None:
    make_certificates(tmp_path)
    if foreign == "client":
        authority = Path(remote.env["DOCKER_CERT_PATH"], "ca.pem")
        (tmp_path / "ca.pem").write_bytes(authority.read_bytes())
    for name, value in {**remote.env, "DOCKER_CERT_PATH": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(DockerUnavailable, match="DOCKER_HOST"):
        DockerSandbox.start(DockerEngine(), SPEC)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_an_engine_that_dies_under_a_command_is_a_lost_sandbox_and_leaves_none(
    remote: OwnEngine, remote_engine: DockerEngine, sign: signal.Signals
) -> None:
    sandbox = DockerSandbox.start(remote_engine, SPEC)
    with ThreadPoolExecutor(1) as threads:
        running = begin(sandbox, threads)
        remote.end(sign)
        try:
            with pytest.raises(SandboxLost):
                running.result(timeout=LONG_S)
            with pytest.raises(DockerUnavailable, match="DOCKER_HOST"):
                DockerSandbox.start(remote_engine, SPEC)
        finally:
            remote.start()
    with pytest.raises(SandboxLost):
        sandbox.exec(Command(argv=("true",)))
    sandbox.teardown()
    wait_until(lambda: not any(exists(remote_engine, one) for one in sandboxes(remote_engine)))
    with DockerSandbox.start(remote_engine, SPEC) as after:
        assert after.exec(Command(argv=("true",))).ok


def sandboxes(engine: DockerEngine) -> list[str]:
    return [one.id for one in list_sandboxes(engine, SPEC.owner)]


def exists(engine: DockerEngine, container: str) -> bool:
    """Whether the engine can inspect it: one that was killed may list what it no longer has."""
    with engine.client("look for a container") as docker:
        try:
            docker.containers.get(container)
        except NotFound:
            return False
        return True
