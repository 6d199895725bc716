"""Each limit can be set, is hit here, and what runs into it says so."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from contracts.errors import SandboxLost
from contracts.sandbox import Command, ExecResult
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.spec import SandboxLimits, SandboxSpec
from sandbox.supervisor.disk import MAX_OVERRUNS
from tests.support.sandboxes import OWNER, StartSandbox
from tests.support.waiting import LONG_S, wait_until
from tests.support.workspace_work import inside

pytestmark = pytest.mark.docker

HOG = "x = bytearray(2 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1"


@pytest.fixture(scope="module")
def started_tight() -> Iterator[DockerSandbox]:
    limits = SandboxLimits(memory_mb=128, cpus=0.25, pids=32, nofile=256, file_size_mb=2, shm_mb=1)
    spec = SandboxSpec(image=BASE_IMAGE, owner=OWNER, run_id="test", limits=limits)
    with DockerSandbox.start(DockerEngine(), spec) as sandbox:
        yield sandbox


@pytest.fixture
def tight(started_tight: DockerSandbox) -> DockerSandbox:
    """Has little of all but disk, and nothing in its folders."""
    inside(started_tight, "find . /tmp /dev/shm -mindepth 1 -delete")
    return started_tight


@pytest.fixture
def small(start_sandbox: StartSandbox) -> DockerSandbox:
    """Has a disk of 64 MB; of one test only, as a disk that was full is measured seldom."""
    return start_sandbox(SandboxLimits(disk_mb=64, nofile=256))


def sh(sandbox: DockerSandbox, line: str, timeout_s: float = LONG_S) -> ExecResult:
    return sandbox.exec(Command(argv=("sh", "-c", line), timeout_s=timeout_s))


def python(sandbox: DockerSandbox, program: str) -> ExecResult:
    return sandbox.exec(Command(argv=("python3", "-c", program), timeout_s=LONG_S))


def test_a_command_over_the_memory_limit_is_killed_and_reported(tight: DockerSandbox) -> None:
    hog = python(tight, HOG)
    assert (hog.exit_code, hog.out_of_memory) == (137, True)
    after = sh(tight, "exit 1")
    assert (after.exit_code, after.out_of_memory) == (1, False)


def test_a_child_killed_for_memory_is_reported_too(tight: DockerSandbox) -> None:
    assert sh(tight, f"python3 -c '{HOG}' || exit 3").out_of_memory


def test_a_failure_beside_a_command_killed_for_memory_is_not_blamed_on_memory(
    tight: DockerSandbox,
) -> None:
    with ThreadPoolExecutor(4) as threads:
        line = "touch begun-{}; until test -e over; do sleep 0.1; done; exit 1"
        beside = [threads.submit(sh, tight, line.format(number)) for number in range(3)]
        wait_until(lambda: sh(tight, "ls begun-*").stdout.count(b"begun") == 3)
        assert python(tight, HOG).out_of_memory
        tight.write_file("over", b"")
        found = [(b.result().exit_code, b.result().out_of_memory) for b in beside]
    assert found == [(1, False)] * 3


def test_a_command_gets_no_more_processors_than_the_limit(tight: DockerSandbox) -> None:
    program = (
        "import time\n"
        "end = time.monotonic() + 2\n"
        "while time.monotonic() < end: pass\n"
        "print(time.process_time())"
    )
    assert float(python(tight, program).stdout) < 1.0


def test_no_more_processes_start_than_the_limit(tight: DockerSandbox) -> None:
    program = (
        "import os, time\n"
        "for n in range(1000):\n"
        "    try:\n"
        "        if not os.fork(): time.sleep(900)\n"
        "    except OSError: print(n); break"
    )
    assert 16 < int(python(tight, program).stdout) < 32


def test_no_more_files_open_than_the_limit(tight: DockerSandbox) -> None:
    program = "files = [open('/dev/null') for _ in range(1000)]"
    assert b"Too many open files" in python(tight, program).stderr


def test_no_file_grows_past_the_limit(tight: DockerSandbox) -> None:
    assert not sh(tight, "head -c 3000000 /dev/zero > big").ok
    assert sh(tight, "stat -c %s big").stdout == b"2097152\n"


def test_shared_memory_is_limited(tight: DockerSandbox) -> None:
    result = sh(tight, "head -c 2000000 /dev/zero > /dev/shm/big")
    assert b"No space left" in result.stderr


@pytest.mark.parametrize("hidden", ["", "; exec 9> gone; rm gone; head -c 90000000 /dev/zero >&9"])
def test_a_command_that_fills_the_disk_is_killed_and_reported(
    small: DockerSandbox, hidden: str
) -> None:
    write = hidden or "; head -c 90000000 /dev/zero > big"
    result = sh(small, f"true {write}; sync; sleep 900")
    assert (result.exit_code, result.timed_out) == (137, False)
    assert result.out_of_disk
    assert sh(small, "rm -f big").ok
    assert sh(small, "echo fine").stdout == b"fine\n"


FILL = "head -c 90000000 /dev/zero > big"
DEEP = "for n in $(seq 600); do mkdir d; cd -P d; done"
OUT_OF_SIGHT = {
    "a folder that cannot be listed": f"mkdir d; cd d; {FILL}; chmod 311 .",
    "a folder that cannot be looked into": f"mkdir d; cd d; {FILL}; chmod 644 .",
    "a folder that nobody may use": f"mkdir d; (cd d; {FILL}); chmod 0 d",
    "a path too long for any call": (
        f"n=$(printf %0200d 0); for i in $(seq 30); do mkdir $n; cd -P $n; done; {FILL}"
    ),
    "more folders in each other than files may be open": f"{DEEP}; {FILL}",
    "a folder that is moved about": (
        f"mkdir p q; cd p; ({DEEP}; {FILL}); while mv d ../q && mv ../q/d .; do :; done"
    ),
    "what nobody wrote, in a deep folder": f"{DEEP}; fallocate -l 90000000 big",
}


@pytest.mark.parametrize("where", OUT_OF_SIGHT)
def test_files_that_cannot_be_listed_count(small: DockerSandbox, where: str) -> None:
    assert sh(small, f"({OUT_OF_SIGHT[where]}); sync; sleep 900").out_of_disk


HOLD = """
import ctypes, os, socket, threading, time
libc, size = ctypes.CDLL(None), 90_000_000
fd = os.open("held", os.O_RDWR | os.O_CREAT)
os.unlink("held")
def fill():
    for _ in range(9):
        os.write(fd, bytes(size // 9))
    os.fsync(fd)
"""
BY_A_PROCESS = {
    "that nobody may look into": "libc.prctl(4, 0); fill(); time.sleep(900)",  # not dumpable
    "whose first thread is gone": (
        "threading.Thread(target=lambda: (fill(), time.sleep(900))).start()\n"
        "libc.syscall(60 if os.uname().machine == 'x86_64' else 93, 0)"
    ),
    "that sent it to itself": (
        "ours, theirs = socket.socketpair()\n"
        "socket.send_fds(ours, [b'.'], [fd]); fill(); os.close(fd); time.sleep(900)"
    ),
    "that has it mapped": (
        "os.ftruncate(fd, size)\n"
        "libc.mmap.restype, where = ctypes.c_void_p, ctypes.c_void_p(None)\n"
        "at = libc.mmap(where, ctypes.c_size_t(size), 3, 1, fd, ctypes.c_long(0)); os.close(fd)\n"
        "ctypes.memset(at, 1, size); os.sync(); time.sleep(900)"
    ),
}


@pytest.mark.parametrize("process", BY_A_PROCESS)
def test_deleted_files_that_a_process_holds_open_count(small: DockerSandbox, process: str) -> None:
    assert python(small, HOLD + BY_A_PROCESS[process]).out_of_disk


def test_files_in_deep_folders_count_for_the_disk_limit(small: DockerSandbox) -> None:
    assert sh(small, DEEP).ok
    assert sh(small, f"{FILL}; sleep 900").out_of_disk
    assert sh(small, "sleep 1; echo fine").stdout == b"fine\n"
    assert sh(small, "cp big bigger; sleep 900").out_of_disk


@pytest.mark.parametrize(
    "fill", ["head -c 90000000 /dev/zero > /tmp/big", "fallocate -l 90000000 /tmp/big"]
)
def test_all_commands_are_ended_when_the_disk_is_full(small: DockerSandbox, fill: str) -> None:
    with ThreadPoolExecutor(2) as threads:
        beside = threads.submit(sh, small, "touch begun; sleep 900")
        wait_until(lambda: sh(small, "test -e begun").ok)
        filler = sh(small, f"{fill}; sleep 900")
        assert (filler.exit_code, filler.out_of_disk) == (137, True)
        assert (beside.result().exit_code, beside.result().out_of_disk) == (137, True)


def test_a_command_that_starts_on_a_full_disk_may_clear_up(small: DockerSandbox) -> None:
    assert sh(small, "head -c 90000000 /dev/zero > big; sleep 900").out_of_disk
    assert sh(small, "sleep 1; rm big; echo fine").stdout == b"fine\n"


def test_a_file_that_grows_by_being_written_to_the_disk_harms_no_later_command(
    small: DockerSandbox, start_sandbox: StartSandbox
) -> None:
    scattered = (
        "import os, time\n"
        "fd = os.open('big', os.O_WRONLY | os.O_CREAT)\n"
        "for n in range(20_000): os.pwrite(fd, bytes(4096), n * 8192)\n"
        "time.sleep(900)"
    )
    assert python(small, scattered).out_of_disk
    with ThreadPoolExecutor(1) as threads:
        later = threads.submit(sh, small, "sync big; sleep 3; echo fine")
        has_files_measured = "sleep 1; head -c 50000000 /dev/zero > other; sync other"
        assert sh(start_sandbox(SandboxLimits()), has_files_measured).ok
        assert later.result().stdout == b"fine\n"


HIDDEN_NOW_AND_THEN = """
import ctypes, time
PR_SET_DUMPABLE = 4
for _ in range(20):
    for visible in (0, 1):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, visible)
        time.sleep(0.1)
print("fine")
"""
"""Like a process that is just being started: nobody may look into it, for a moment."""


def test_a_process_that_hides_for_a_moment_is_not_charged_for_what_others_write(
    small: DockerSandbox, start_sandbox: StartSandbox
) -> None:
    assert sh(small, "head -c 90000000 /dev/zero > big; sleep 900").out_of_disk
    other = start_sandbox(SandboxLimits())
    with ThreadPoolExecutor(1) as threads:
        hiding = threads.submit(python, small, HIDDEN_NOW_AND_THEN)
        while not hiding.done():
            assert sh(other, "head -c 100000000 /dev/zero > big; sync big; rm big").ok
        assert hiding.result().stdout == b"fine\n"


def test_filling_the_disk_again_and_again_ends_the_sandbox(small: DockerSandbox) -> None:
    assert sh(small, f"{FILL}; sleep 900").out_of_disk
    with pytest.raises(SandboxLost, match=r"its files take \d+ MiB of the 64 that they may"):
        for n in range(20):
            write = f"head -c 8000000 /dev/zero > more-{n}-$i; i=$((i + 1)); sleep 1"
            assert sh(small, f"i=0; while :; do {write}; done").out_of_disk
    assert 2 < n < MAX_OVERRUNS, "the first came before; one write may be found in two parts"


def test_the_files_of_another_user_count(small: DockerSandbox) -> None:
    line = "umask 077; mkdir /tmp/own; head -c 90000000 /dev/zero > /tmp/own/big; sleep 900"
    result = small.exec(Command(argv=("sh", "-c", line), user="nobody"))
    assert (result.exit_code, result.out_of_disk) == (137, True)


def test_files_in_a_directory_made_read_only_count(small: DockerSandbox) -> None:
    line = "mkdir d; >d/big; chmod 555 d; head -c 90000000 /dev/zero > d/big; sleep 900"
    assert sh(small, line).out_of_disk


def test_no_command_can_stop_the_measurement(small: DockerSandbox) -> None:
    program = (
        "import os, threading\n"
        "def kill():\n"
        "    while True:\n"
        "        try: os.kill(-1, 9)\n"
        "        except ProcessLookupError: pass\n"
        "threading.Thread(target=kill, daemon=True).start()\n"
        "open('big', 'wb').write(bytes(90 << 20))\n"
        "threading.Event().wait()"
    )
    assert python(small, program).out_of_disk


MARKED = """
import os, time
from contextlib import suppress
from pathlib import Path

def mark(process):
    status = Path(f"/proc/{process}/status").read_text()
    return [line for line in status.splitlines() if line.startswith("Groups:")]

Path("big").write_bytes(bytes(8 << 20))
os.sync()
found, ours, end = set(), {"1", "self", "thread-self", str(os.getpid())}, time.monotonic() + 3
while time.monotonic() < end:
    for process in {path.name for path in Path("/proc").glob("[0-9]*")} - ours:
        with suppress(OSError):
            if mark(process) == mark("self"):
                found.add(process)
print(len(found))
"""
"""Makes the disk so much fuller that it is measured, and counts who has the mark of this command
beside this command, whose end would be theirs."""


def test_a_measurement_is_no_process_of_a_command(small: DockerSandbox) -> None:
    assert python(small, MARKED).stdout == b"0\n"


def test_a_command_past_its_time_is_killed(tight: DockerSandbox) -> None:
    assert sh(tight, "sleep 900", timeout_s=0.3).timed_out


def test_a_sandbox_past_its_time_is_gone_and_names_the_setting(engine: DockerEngine) -> None:
    spec = SandboxSpec(image=BASE_IMAGE, owner=OWNER, run_id="test", ttl_s=2)
    past = r"time limit of 2 s \(\[sandbox\] ttl_s\)"
    with pytest.raises(SandboxLost, match=past), DockerSandbox.start(engine, spec) as sandbox:
        sh(sandbox, "sleep 900")
