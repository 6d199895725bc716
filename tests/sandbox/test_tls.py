"""A Docker engine behind TLS on a TCP port: everything goes over the stream, so it is the same."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socket import create_server
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from contracts.errors import DockerUnavailable
from contracts.sandbox import Command
from sandbox.container import DockerSandbox
from sandbox.engine import Engine
from sandbox.flags import SandboxSpec
from sandbox.images import BASE_IMAGE
from sandbox.reap import list_sandboxes

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(os.geteuid() != 0, reason="starting an engine needs root"),
]

ROOT = Path(__file__).parents[2]
SPEC = SandboxSpec(image=BASE_IMAGE, owner="harness-tests-tls", run_id="test")


def make_certificates(place: Path) -> None:
    """An authority of our own, and a certificate by it for the engine and for its clients."""

    def openssl(*argv: str) -> None:
        subprocess.run(("openssl", *argv), cwd=place, check=True, capture_output=True)

    key = ("-newkey", "rsa:2048", "-nodes", "-keyout")
    openssl("req", "-x509", *key, "ca-key.pem", "-subj", "/CN=authority", "-out", "ca.pem")
    for who, use in (("server", "serverAuth"), ("client", "clientAuth")):
        stem = {"server": "server-", "client": ""}[who]
        facts = f"subjectAltName=IP:127.0.0.1\nextendedKeyUsage={use}\n"
        (place / "facts").write_text(facts)
        openssl("req", *key, f"{stem}key.pem", "-subj", f"/CN={who}", "-out", "request")
        openssl("x509", "-req", "-in", "request", "-CA", "ca.pem", "-CAkey", "ca-key.pem",
                "-CAcreateserial", "-extfile", "facts", "-out", f"{stem}cert.pem")  # fmt: skip


class Remote(NamedTuple):
    """An engine of the test's own, by the variables that lead there."""

    env: Mapping[str, str]

    def docker(self, *argv: str, stdin: int | None = None) -> subprocess.CompletedProcess[bytes]:
        env = {**os.environ, **self.env}
        asked = ("docker", *argv)
        return subprocess.run(asked, env=env, stdin=stdin, capture_output=True, check=False)


@contextmanager
def dockerd(place: Path) -> Iterator[Remote]:
    """An engine that shares nothing with the machine's own."""
    make_certificates(place)
    with create_server(("127.0.0.1", 0)) as free:
        url = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    remote = Remote({"DOCKER_HOST": url, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(place)})
    argv = (
        "dockerd", "--data-root", f"{place}/data", "--exec-root", f"{place}/exec",
        "--pidfile", f"{place}/pid",
        "--bridge=none", "--iptables=false", "--host", url, "--tlsverify",
        "--tlscacert", "ca.pem", "--tlscert", "server-cert.pem", "--tlskey", "server-key.pem",
    )  # fmt: skip
    with (place / "log").open("wb") as log:
        engine = subprocess.Popen(argv, cwd=place, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 30
        while remote.docker("version").returncode and time.monotonic() < deadline:
            time.sleep(0.1)
        yield remote
    finally:
        engine.terminate()
        engine.wait(timeout=30)


@pytest.fixture(scope="module")
def remote() -> Iterator[Remote]:
    """An engine behind TLS that has the base image. Its place is short: sockets are there."""
    with TemporaryDirectory(prefix="harness-") as name, dockerd(place := Path(name)) as remote:
        with subprocess.Popen(("docker", "save", BASE_IMAGE), stdout=subprocess.PIPE) as saved:
            assert saved.stdout is not None
            loaded = remote.docker("load", stdin=saved.stdout.fileno())
        assert loaded.returncode == 0, (place / "log").read_text()[-2000:]
        yield remote


@pytest.fixture
def remote_engine(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> Engine:
    for name, value in remote.env.items():
        monkeypatch.setenv(name, value)
    return Engine()


def test_the_contract_suite_passes_on_a_remote_engine(remote: Remote) -> None:
    done = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "docker",
         "tests/contract/test_sandbox.py", "tests/contract/test_forward.py"),
        cwd=ROOT, env={**os.environ, **remote.env}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_remote_sandbox_is_there_and_gone_and_mounts_nothing(
    remote: Remote, remote_engine: Engine
) -> None:
    with DockerSandbox.start(remote_engine, SPEC) as sandbox:
        told = remote.docker("inspect", "-f", "{{json .HostConfig.Binds}} {{json .Mounts}}",
                             sandbox.container_id).stdout  # fmt: skip
        assert told == b"null []\n"
        assert len(list_sandboxes(remote_engine, SPEC.owner)) == 1
    assert list_sandboxes(remote_engine, SPEC.owner) == ()


def test_streams_in_both_directions_at_once_survive_tls(remote_engine: Engine) -> None:
    data = os.urandom(1 << 20) * 30
    with DockerSandbox.start(remote_engine, SPEC) as sandbox:
        command = Command(argv=("cat",), stdin=data, output_limit=len(data), timeout_s=60)
        assert sandbox.exec(command).stdout == data


@pytest.mark.parametrize("foreign", ["engine", "client"])
def test_with_a_foreign_certificate_there_is_no_engine(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, foreign: str
) -> None:
    make_certificates(tmp_path)
    if foreign == "client":
        authority = Path(remote.env["DOCKER_CERT_PATH"], "ca.pem")
        (tmp_path / "ca.pem").write_bytes(authority.read_bytes())
    for name, value in {**remote.env, "DOCKER_CERT_PATH": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(DockerUnavailable, match="DOCKER_HOST"):
        DockerSandbox.start(Engine(), SPEC)
