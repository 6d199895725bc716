"""Package installs through the way out, from whatever registries this machine uses."""

import os
import re
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from contracts.sandbox import Command, ExecResult
from sandbox.container import DockerSandbox
from sandbox.egress import EgressEvent, EgressProxy, open_egress
from sandbox.spec import SandboxLimits
from tests.support.sandboxes import StartSandbox, off_the_internet, pip_hosts

pytestmark = pytest.mark.docker


def npm_hosts(sandbox: DockerSandbox) -> list[str]:
    told = sandbox.exec(Command(argv=("npm", "config", "get", "registry")))
    return [urlsplit(told.text.strip()).hostname or ""]


def apt_hosts(sandbox: DockerSandbox) -> list[str]:
    line = "cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null; true"
    sources = sandbox.exec(Command(argv=("sh", "-c", line))).text
    return sorted({urlsplit(url).hostname or "" for url in re.findall(r"https?://\S+", sources)})


class Installer:
    """A sandbox with a way out to these hosts."""

    def __init__(self, sandbox: DockerSandbox, stack: ExitStack, hosts: list[str]) -> None:
        self.events: list[EgressEvent] = []
        addresses = off_the_internet(hosts)
        egress = stack.enter_context(EgressProxy(hosts, self.events.append, addresses=addresses))
        bundle = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
        self._sandbox = sandbox
        self._env = open_egress(
            sandbox, egress, certificates=Path(bundle).read_bytes() if bundle else b""
        )

    def run(self, line: str) -> ExecResult:
        command = Command(argv=("sh", "-c", line), env=self._env)
        return self._sandbox.exec(command)

    def kinds(self) -> set[str]:
        return {event.kind for event in self.events}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_pip_installs_from_an_allowed_index(
    docker_sandbox: DockerSandbox, stack: ExitStack
) -> None:
    installer = Installer(docker_sandbox, stack, pip_hosts())
    result = installer.run("python3 -m venv v && v/bin/pip install -q six && v/bin/python -m six")
    assert result.ok, result.text
    assert installer.kinds() == {"allowed"}


def test_npm_installs_from_an_allowed_registry(
    docker_sandbox: DockerSandbox, stack: ExitStack
) -> None:
    installer = Installer(docker_sandbox, stack, npm_hosts(docker_sandbox))
    result = installer.run("npm install --no-audit --no-fund left-pad && ls node_modules/left-pad")
    assert result.ok, result.text
    assert installer.kinds() == {"allowed"}


def test_apt_reads_its_lists_and_packages_over_plain_http(
    start_sandbox: StartSandbox, stack: ExitStack
) -> None:
    sandbox = start_sandbox(SandboxLimits())
    installer = Installer(sandbox, stack, apt_hosts(sandbox))
    line = (
        "mkdir -p a/lists/partial a/cache/archives/partial && "
        'apt="apt-get -q -o Dir::State::lists=$PWD/a/lists -o Dir::Cache=$PWD/a/cache" && '
        "$apt update && $apt download hello && dpkg-deb --info hello_*.deb"
    )
    result = installer.run(line)
    assert result.ok, result.text
    assert installer.kinds() == {"allowed"}


def test_an_install_from_a_refused_index_fails_and_is_reported(
    docker_sandbox: DockerSandbox, stack: ExitStack
) -> None:
    allowed, *_ = npm_hosts(docker_sandbox)
    installer = Installer(docker_sandbox, stack, [allowed])
    result = installer.run("pip download --retries 1 six")
    assert "403 No way to" in result.text, result.text
    assert not result.ok
    assert {(e.kind, e.host) for e in installer.events} == {("refused", pip_hosts()[0])}


def test_a_program_that_ignores_the_proxy_has_no_way_out(
    docker_sandbox: DockerSandbox, stack: ExitStack
) -> None:
    host, *_ = pip_hosts()
    installer = Installer(docker_sandbox, stack, [host])
    program = f"import socket; socket.create_connection(({host!r}, 443), timeout=5)"
    by_name = installer.run(f'python3 -c "{program}"')
    by_address = installer.run('python3 -c "{}"'.format(program.replace(host, "1.1.1.1")))
    assert "resolution" in by_name.text
    assert "unreachable" in by_address.text
    assert installer.events == []


def test_a_closed_proxy_leaves_no_way_out(docker_sandbox: DockerSandbox, stack: ExitStack) -> None:
    installer = Installer(docker_sandbox, stack, pip_hosts())
    stack.close()
    assert not installer.run("pip download -q --retries 0 six").ok
