"""Commands that try to outlive, outgrow or take down their sandbox."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.sandbox.bombs import BOMBS
from contracts.sandbox import Command, ExecResult
from sandbox.container import DockerSandbox
from sandbox.spec import SandboxLimits
from tests.support.sandboxes import StartSandbox
from tests.support.waiting import LONG_S, growing_limits, wait_until

pytestmark = pytest.mark.docker

DOUBLE_FORK = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(2):
    if os.fork():
        os._exit(0)
    os.setsid()
os.execve("/usr/bin/env", ["env", "-i", "sleep", "600"], {})
"""
BOMB = """
import os
while True:
    try: os.fork()
    except OSError: pass
"""
LEAVING_BOMB = """
import os
while True:
    try:
        if not os.fork():
            os.setsid()
            if os.fork(): os._exit(0)
    except OSError: pass
"""
SHELL_BOMB = "import os; os.execlp('bash', 'bash', '-c', 'b() { b | b & b; }; b')"
HOG = """
import os, time
while True:
    try:
        if not os.fork(): time.sleep(900)
    except OSError:
        print("full", flush=True)
        time.sleep(0.01)
"""
RESTLESS_BOMB = """
import os, signal
while True:
    try:
        os.fork()
        os.kill(-1, signal.SIGCONT)
    except OSError: pass
"""
LEADERLESS = """
import ctypes, os, signal, sys, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
heard, say = os.pipe()
if "orphaned" in sys.argv and os.fork():
    os.read(heard, 1)
    os._exit(0)
def go_on():
    print("begun", flush=True)
    time.sleep(0.2)
    os.write(say, b".")
    time.sleep(600)
threading.Thread(target=go_on).start()
EXIT = 60 if os.uname().machine == "x86_64" else 93
ctypes.CDLL(None).syscall(EXIT, 0)  # of this thread alone, the first
"""
CROWD = (
    "for _ in $(seq 100); do sleep 600 & done; touch full; until test -e over; do sleep 0.1; done"
)
UNTIL_OVER = """
import os, time
print("on", flush=True)
while not os.path.exists("over"): time.sleep(0.1)
"""
STEADY = Command(argv=("sh", "-c", "until test -e over; do sleep 0.1; done; echo ok"))
"""Goes on until it is told that the test is over."""

COUNT = """
from contextlib import suppress
from pathlib import Path
real = []
for status in Path("/proc").glob("[0-9]*/status"):
    with suppress(OSError):
        real.append(status.read_text().split("Uid:")[1].split()[0])
print(sum(uid != "0" for uid in real) - 1)
"""

PRIORITIES = """
from contextlib import suppress
from pathlib import Path
for process in Path("/proc").glob("[0-9]*"):
    with suppress(OSError):
        if process.stat().st_uid:
            print((process / "stat").read_text().rpartition(")")[2].split()[16])
"""


def python(
    sandbox: DockerSandbox, program: str, timeout_s: float = LONG_S, user: str | None = None
) -> ExecResult:
    command = Command(argv=("python3", "-c", program), timeout_s=timeout_s, user=user)
    return sandbox.exec(command)


@pytest.fixture
def docker_sandbox(start_sandbox: StartSandbox) -> DockerSandbox:
    """One of its own: what may be left of an attack is for no other test."""
    return start_sandbox(SandboxLimits(memory_mb=512, pids=128, file_size_mb=8))


def processes_of_users(sandbox: DockerSandbox) -> int:
    """How many there are beside the one that counts.

    By their real user: a measurement of the disk, which is root's, looks as a user does.
    """
    return int(python(sandbox, COUNT).stdout)


def priorities(sandbox: DockerSandbox) -> list[str]:
    """The priority of each process of a user."""
    return python(sandbox, PRIORITIES).stdout.decode().split()


def test_a_command_that_kills_all_it_can_ends_only_itself(docker_sandbox: DockerSandbox) -> None:
    docker_sandbox.exec(Command(argv=("sh", "-c", "kill -9 -1")))
    assert docker_sandbox.exec(Command(argv=("echo", "alive"))).stdout == b"alive\n"


def test_a_command_that_another_may_have_ended_is_told(docker_sandbox: DockerSandbox) -> None:
    victim = Command(argv=("sh", "-c", "touch /tmp/there; while :; do sleep 0.05; done"))
    killer = "until test -e /tmp/there; do sleep 0.05; done; kill -9 -1"
    with ThreadPoolExecutor(1) as beside:
        ended = beside.submit(docker_sandbox.exec, victim)
        docker_sandbox.exec(Command(argv=("sh", "-c", killer)))
        assert (ended.result().exit_code, ended.result().disturbed) == (137, True)
    alone = docker_sandbox.exec(Command(argv=("sh", "-c", "kill -9 $$")))
    assert (alone.exit_code, alone.disturbed) == (137, False)


FORGE = "echo forged > /proc/$(cat /tmp/victim)/fd/1"


def test_no_command_can_write_to_the_output_of_another(docker_sandbox: DockerSandbox) -> None:
    line = "echo $$ > /tmp/victim; while ! test -e /tmp/tried; do sleep 0.05; done; echo mine"
    victim = Command(argv=("sh", "-c", line))
    forger = f"until test -s /tmp/victim; do sleep 0.05; done; {FORGE}; touch /tmp/tried"
    with ThreadPoolExecutor(1) as beside:
        said = beside.submit(docker_sandbox.exec, victim)
        tried = docker_sandbox.exec(Command(argv=("sh", "-c", forger)))
        assert said.result().stdout == b"mine\n"
    assert b"Permission denied" in tried.stderr


def test_not_even_its_children_speak_in_the_name_of_a_private_command(
    docker_sandbox: DockerSandbox,
) -> None:
    line = f"echo $$ > /tmp/victim; ({FORGE}); echo mine"
    said = docker_sandbox.exec(Command(argv=("sh", "-c", line), private=True, stdin="quiet"))
    assert (said.stdout, b"Permission denied" in said.stderr) == (b"mine\n", True)


def test_a_double_fork_with_its_own_session_is_gone_after_return(
    docker_sandbox: DockerSandbox,
) -> None:
    result = python(docker_sandbox, DOUBLE_FORK)
    assert (result.exit_code, result.timed_out) == (0, False)
    assert result.killed_children >= 1
    assert processes_of_users(docker_sandbox) == 0


def test_processes_forked_during_the_kill_are_gone_after_return(
    docker_sandbox: DockerSandbox,
) -> None:
    with ThreadPoolExecutor(1) as beside:  # among many, looking takes as long as a fork
        crowd = beside.submit(docker_sandbox.exec, Command(argv=("sh", "-c", CROWD)))
        docker_sandbox.exec(Command(argv=("sh", "-c", "until test -e full; do sleep 0.1; done")))
        killed = [python(docker_sandbox, DOUBLE_FORK).killed_children for _ in range(30)]
        docker_sandbox.exec(Command(argv=("touch", "over")))
    assert 0 not in killed
    assert crowd.result().killed_children >= 100
    assert processes_of_users(docker_sandbox) == 0


def test_a_process_without_its_first_thread_is_gone_after_return(
    docker_sandbox: DockerSandbox,
) -> None:
    orphaned = Command(argv=("python3", "-c", LEADERLESS, "orphaned"))
    result = docker_sandbox.exec(orphaned)
    assert (result.timed_out, result.killed_children) == (False, 1)
    assert processes_of_users(docker_sandbox) == 0


def test_a_command_without_its_first_thread_is_gone_after_its_timeout_and_no_other(
    docker_sandbox: DockerSandbox,
) -> None:
    with ThreadPoolExecutor(1) as beside:
        steady = beside.submit(docker_sandbox.exec, STEADY)
        for limit_s in growing_limits(0.5):
            result = python(docker_sandbox, LEADERLESS, limit_s)
            assert result.timed_out
            if result.stdout == b"begun\n":
                break
        docker_sandbox.write_file("over", b"")
        assert steady.result().stdout == b"ok\n"
    assert processes_of_users(docker_sandbox) == 0


def test_a_double_fork_with_its_own_session_is_gone_after_a_timeout(
    docker_sandbox: DockerSandbox,
) -> None:
    waits = DOUBLE_FORK.replace("os._exit(0)", "time.sleep(900)")
    waits = waits.replace("os.execve", "open('forked', 'w').close()\nos.execve")
    for limit_s in growing_limits(0.5):
        result = python(docker_sandbox, waits, limit_s)
        assert result.timed_out
        if docker_sandbox.exec(Command(argv=("test", "-e", "forked"))).ok:
            break
    assert result.killed_children == 2
    assert processes_of_users(docker_sandbox) == 0


@pytest.mark.parametrize(
    ("bomb", "user"), [(BOMB, None), (RESTLESS_BOMB, None), (RESTLESS_BOMB, "nobody")]
)
def test_a_fork_bomb_is_cleared_at_its_timeout(
    docker_sandbox: DockerSandbox, bomb: str, user: str | None
) -> None:
    for limit_s in growing_limits(1):
        result = python(docker_sandbox, bomb, limit_s, user)
        assert result.timed_out
        if result.killed_children > 50:
            break
    assert processes_of_users(docker_sandbox) == 0


@pytest.mark.parametrize("bomb", [BOMB, LEAVING_BOMB, SHELL_BOMB], ids=["fork", "leave", "shell"])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside-another"])
def test_a_fork_bomb_at_default_limits_is_cleared_at_its_timeout(
    start_sandbox: StartSandbox, bomb: str, beside: bool
) -> None:
    sandbox = start_sandbox(SandboxLimits())
    waiting = Command(argv=("python3", "-c", UNTIL_OVER if beside else "print('on')"))
    started = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(sandbox.exec, waiting, lambda _stream, _data: started.set())
        started.wait()
        result = python(sandbox, bomb, 3.0)
        assert result.timed_out
        assert processes_of_users(sandbox) <= (1 if beside else 0)
        assert sandbox.exec(Command(argv=("touch", "over"))).ok
        assert other.result().ok


def test_all_that_a_command_forks_at_once_has_the_lowest_priority(
    docker_sandbox: DockerSandbox,
) -> None:
    with ThreadPoolExecutor(1) as threads:
        threads.submit(
            python, docker_sandbox, f"import os\nfor _ in range(6): os.fork(){UNTIL_OVER}"
        )
        wait_until(lambda: len(priorities(docker_sandbox)) > 64)
        found = priorities(docker_sandbox)
        docker_sandbox.write_file("over", b"")
    assert set(found) == {"19"}


@pytest.mark.parametrize("bomb", ["memory bomb", "descriptor bomb", "bomb of small files"])
def test_a_bomb_at_default_limits_leaves_its_sandbox_usable(
    start_sandbox: StartSandbox, bomb: str
) -> None:
    sandbox = start_sandbox(SandboxLimits())
    result = sandbox.exec(Command(argv=BOMBS[bomb], timeout_s=1.0))
    assert result.timed_out or result.out_of_memory
    assert processes_of_users(sandbox) == 0


def test_a_command_that_fails_at_the_process_limit_is_reported(
    docker_sandbox: DockerSandbox,
) -> None:
    too_many = python(docker_sandbox, "import os, signal\nwhile True: os.fork() or signal.pause()")
    assert (too_many.exit_code, too_many.out_of_processes) == (1, True)
    assert not python(docker_sandbox, "raise SystemExit(1)").out_of_processes


def test_a_command_that_cannot_start_a_process_is_reported(
    docker_sandbox: DockerSandbox,
) -> None:
    full, over = threading.Event(), threading.Event()

    def heard(_stream: str, _data: bytes) -> None:
        full.set()
        if over.is_set():
            raise KeyError("this ends the hog")

    hog = Command(argv=("python3", "-c", HOG))
    sleep = Command(argv=("sleep", "1"))
    with ThreadPoolExecutor(6) as threads:
        threads.submit(docker_sandbox.exec, hog, heard)
        assert full.wait(LONG_S)
        results = list(threads.map(docker_sandbox.exec, [sleep] * 5))
        over.set()
    told = [result for result in results if "no process can" in (result.launch_error or "")]
    assert len(told) + sum(result.ok for result in results) == 5
    assert told
    wait_until(lambda: docker_sandbox.exec(Command(argv=("true",))).ok)


def test_ending_one_command_leaves_the_others_alone(docker_sandbox: DockerSandbox) -> None:
    with ThreadPoolExecutor(2) as threads:
        steady = threads.submit(docker_sandbox.exec, STEADY)
        for _ in range(5):
            assert python(docker_sandbox, DOUBLE_FORK).killed_children >= 1
        docker_sandbox.write_file("over", b"")
    assert steady.result().stdout == b"ok\n"


def test_an_inherited_output_pipe_does_not_block_the_call(docker_sandbox: DockerSandbox) -> None:
    receive = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.bind('/tmp/pass'); s.listen()\n"
        "c, _ = s.accept(); fds = socket.recv_fds(c, 1, 1)[1]; print('got', flush=True)\n"
        "import os, time\n"
        "while not os.path.exists('over'): time.sleep(0.05)"
    )
    give = (
        "import socket, time\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        "while True:\n"
        "    try: s.connect('/tmp/pass'); break\n"
        "    except OSError: time.sleep(0.05)\n"
        "socket.send_fds(s, [b'x'], [1]); print('given', flush=True); time.sleep(0.2)"
    )
    with ThreadPoolExecutor(2) as threads:
        receiver = threads.submit(python, docker_sandbox, receive)
        giver = python(docker_sandbox, give)
        assert not receiver.done()
        docker_sandbox.write_file("over", b"")
    assert (giver.stdout, receiver.result().stdout) == (b"given\n", b"got\n")


def test_a_slow_reader_holds_up_only_its_own_command(docker_sandbox: DockerSandbox) -> None:
    beside: list[bool] = []

    def slow(_stream: str, _data: bytes) -> None:
        if not beside:
            beside.append(docker_sandbox.exec(Command(argv=("true",))).ok)

    command = Command(argv=("head", "-c", "20000000", "/dev/zero"))
    assert docker_sandbox.exec(command, slow).stdout_size == 20_000_000
    assert beside == [True]


def test_500_mb_of_output_is_counted_and_not_kept(docker_sandbox: DockerSandbox) -> None:
    result = docker_sandbox.exec(Command(argv=("head", "-c", "500000000", "/dev/zero")))
    assert (result.stdout_size, len(result.stdout)) == (500_000_000, 256 * 1024)
