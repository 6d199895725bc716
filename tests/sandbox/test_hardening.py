"""What a command finds inside, and the limits it runs into."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from contracts.errors import SandboxFileDenied
from contracts.sandbox import Command
from sandbox.container import DockerSandbox
from sandbox.supervisor.process_tree import FIRST_MARK
from tests.support.waiting import wait_until

UNTIL_OVER = "until test -e over; do sleep 0.1; done; echo ok"

pytestmark = pytest.mark.docker


def run(sandbox: DockerSandbox, *argv: str) -> str:
    return sandbox.exec(Command(argv=argv)).text


def test_a_command_is_the_agent_without_any_capability(docker_sandbox: DockerSandbox) -> None:
    assert run(docker_sandbox, "id", "-u") == "1000"
    assert run(docker_sandbox, "id", "-g") == "1000"
    status = dict(
        line.split(":\t") for line in run(docker_sandbox, "cat", "/proc/self/status").splitlines()
    )
    capabilities = {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
    assert capabilities == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_a_command_of_another_user_has_only_the_rights_of_that_user(
    docker_sandbox: DockerSandbox,
) -> None:
    line = "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:)' /proc/self/status; ls -di ~"
    result = docker_sandbox.exec(Command(argv=("sh", "-c", line), user="www-data"))
    told = dict(line.split(":\t") for line in result.stdout.decode().splitlines() if ":" in line)
    assert (set(told["Uid"].split()), set(told["Gid"].split())) == ({"33"}, {"33"})
    assert int(told["Groups"]) >= FIRST_MARK
    assert {told[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert (told["NoNewPrivs"], told["Seccomp"]) == ("1", "2")


def test_users_inside_cannot_end_or_read_each_other(docker_sandbox: DockerSandbox) -> None:
    docker_sandbox.write_file("closed", b"x")
    run(docker_sandbox, "chmod", "600", "closed")
    with ThreadPoolExecutor(1) as threads:
        waiting = Command(argv=("sh", "-c", f"touch begun; {UNTIL_OVER}"), env={"TOKEN": "mine"})
        steady = threads.submit(docker_sandbox.exec, waiting)
        wait_until(lambda: docker_sandbox.exec(Command(argv=("test", "-e", "begun"))).ok)
        read = "cat closed; cat /proc/[0-9]*/environ | grep -a TOKEN"
        line = f"kill -9 -1; kill -9 1; {read}; echo > ~/x || echo alive"
        other = docker_sandbox.exec(Command(argv=("sh", "-c", line), user="www-data"))
        docker_sandbox.write_file("over", b"")
        assert steady.result().text == "ok"
    assert other.stdout == b"alive\n"


def test_there_is_no_network(docker_sandbox: DockerSandbox) -> None:
    assert run(docker_sandbox, "ls", "/sys/class/net") == "lo"


def test_localhost_is_the_only_name_and_leads_to_the_sandbox(
    docker_sandbox: DockerSandbox,
) -> None:
    script = (
        "import socket\n"
        "door = socket.create_server(('localhost', 0))\n"
        "socket.create_connection(('localhost', door.getsockname()[1]))\n"
        "print(*sorted({one[4][0] for one in socket.getaddrinfo('localhost', 80)}))\n"
    )
    assert run(docker_sandbox, "python3", "-c", script) == "127.0.0.1 ::1"
    assert run(docker_sandbox, "sh", "-c", "cat /etc/resolv.conf || true") == ""
    assert run(docker_sandbox, "sh", "-c", "test -w /etc/hosts || echo read only") == "read only"


def test_nothing_of_the_host_is_mounted(docker_sandbox: DockerSandbox) -> None:
    lines = run(docker_sandbox, "cat", "/proc/self/mountinfo").splitlines()
    mounts = {line.split()[4] for line in lines}
    of_docker = {"/etc/hostname"}
    of_kernel = ("/proc", "/sys", "/dev")
    others = {m for m in mounts - of_docker if not m.startswith(of_kernel)}
    others = {m for m in others if not m.endswith("/docker-init")}
    assert others == {"/"}


def test_a_file_of_another_is_denied(docker_sandbox: DockerSandbox) -> None:
    docker_sandbox.write_file("closed", b"x")
    run(docker_sandbox, "chmod", "000", "closed")
    with pytest.raises(SandboxFileDenied):
        docker_sandbox.read_file("closed")
    with pytest.raises(SandboxFileDenied):
        docker_sandbox.write_file("/root-owned", b"x")


def test_root_cannot_be_had(docker_sandbox: DockerSandbox) -> None:
    result = docker_sandbox.exec(Command(argv=("sh", "-c", "su -c id || sudo -n id")))
    assert result.exit_code != 0


def test_the_supervisor_cannot_be_looked_into(docker_sandbox: DockerSandbox) -> None:
    line = "for p in /proc/[0-9]*; do [ $(stat -c %u $p) = 0 ] && cat $p/environ $p/mem; done"
    assert docker_sandbox.exec(Command(argv=("sh", "-c", line))).stdout == b""


@pytest.mark.parametrize(("limit", "expected"), [("-n", "4096"), ("-c", "0")])
def test_each_ulimit_is_as_configured(
    docker_sandbox: DockerSandbox, limit: str, expected: str
) -> None:
    assert run(docker_sandbox, "sh", "-c", f"ulimit {limit}") == expected
