"""The seccomp profile, syscall by syscall, from inside; and that honest work goes on."""

import errno
import json
import platform
import signal
from collections.abc import Iterator

import pytest

from contracts.sandbox import Command, ExecResult
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.spec import SandboxSpec

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are of x86-64"),
]

REFUSED = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "unshare": 272, "setns": 308,
    "add_key": 248, "request_key": 249, "keyctl": 250,
    "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "fanotify_init": 300,
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "pidfd_getfd": 438, "process_madvise": 440,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "mount_setattr": 442,
    "open_by_handle_at": 304, "name_to_handle_at": 303,
    "kexec_load": 246, "kexec_file_load": 320, "reboot": 169, "init_module": 175,
    "finit_module": 313, "delete_module": 176, "syslog": 103, "acct": 163, "quotactl": 179,
    "swapon": 167, "swapoff": 168, "iopl": 172, "ioperm": 173, "modify_ldt": 154,
    "settimeofday": 164, "clock_settime": 227, "sethostname": 170, "setdomainname": 171,
    "mbind": 237, "set_mempolicy": 238, "move_pages": 279, "vmsplice": 278, "uselib": 134,
}  # fmt: skip
NAMESPACES = {
    "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000,
    "user": 0x10000000, "pid": 0x20000000, "network": 0x40000000,
}  # fmt: skip
FAMILIES = {
    "netlink audit": (16, 3, 9),
    "packet": (17, 3, 0),
    "alg": (38, 5, 0),
    "vsock": (40, 1, 0),
}
CLONE, CLONE3, PERSONALITY, SOCKET = 56, 435, 135, 41
NO_RANDOM_ADDRESSES = 0x40000

CALLS = {
    **{name: (number, 0, 0, 0) for name, number in REFUSED.items()},
    **{f"clone a {n} namespace": (CLONE, flag | 17, 0, 0) for n, flag in NAMESPACES.items()},
    **{f"{name} socket": (SOCKET, *family) for name, family in FAMILIES.items()},
    "personality": (PERSONALITY, NO_RANDOM_ADDRESSES, 0, 0),
}
PROGRAM = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
parent, told = os.getpid(), {}
for name, call in json.load(sys.stdin).items():
    got = libc.syscall(*map(ctypes.c_long, call), 0, 0, 0)
    if os.getpid() != parent:
        os._exit(0)
    told[name] = ctypes.get_errno() if got == -1 else 0
print(json.dumps(told))
"""
BY_INT_0X80 = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, getpid; int 0x80; ret
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
"""


@pytest.fixture(scope="module")
def inside() -> Iterator[DockerSandbox]:
    spec = SandboxSpec(image=BASE_IMAGE, owner="harness-tests", run_id="seccomp")
    with DockerSandbox.start(DockerEngine(), spec) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def answers(inside: DockerSandbox) -> dict[str, int]:
    """The errno of each call; 0 where it was let through."""
    result = python(inside, PROGRAM, json.dumps(CALLS))
    assert result.ok, result.text
    told: dict[str, int] = json.loads(result.stdout)
    return told


def python(sandbox: DockerSandbox, program: str, stdin: str = "") -> ExecResult:
    command = Command(argv=("python3", "-c", program), stdin=stdin.encode())
    return sandbox.exec(command)


def sh(sandbox: DockerSandbox, line: str) -> ExecResult:
    return sandbox.exec(Command(argv=("sh", "-c", line)))


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_programs_do_not_need_is_refused(answers: dict[str, int], call: str) -> None:
    assert answers[call] == errno.EPERM


def test_clone3_is_unknown_so_that_libc_uses_clone(inside: DockerSandbox) -> None:
    told = python(inside, PROGRAM, json.dumps({"clone3": (CLONE3, 0, 0, 0)}))
    assert json.loads(told.stdout) == {"clone3": errno.ENOSYS}


def test_unshare_of_a_user_namespace_fails(inside: DockerSandbox) -> None:
    result = sh(inside, "unshare --user --map-root-user id")
    assert "not permitted" in result.text


def test_the_x32_way_in_is_closed(inside: DockerSandbox) -> None:
    told = python(inside, PROGRAM, json.dumps({"x32": (39 | 0x40000000, 0, 0, 0)}))
    killed = told.exit_code == 128 + signal.SIGSYS
    assert killed or json.loads(told.stdout)["x32"] in (errno.EPERM, errno.ENOSYS)


def test_the_32_bit_way_in_is_closed(inside: DockerSandbox) -> None:
    assert python(inside, BY_INT_0X80).exit_code in (128 + signal.SIGSYS, 128 + signal.SIGSEGV)


@pytest.mark.parametrize(
    "line",
    [
        "python3 -c 'import threading as t; [t.Thread(target=print).start() for _ in range(50)]'",
        "python3 -c 'import multiprocessing as m; print(m.Pool(4).map(abs, range(9)))'",
        "python3 -c 'import asyncio; asyncio.run(asyncio.create_subprocess_exec(\"true\"))'",
        'python3 -c \'import sqlite3; sqlite3.connect("db").execute("create table t (x)")\'',
        "python3 -m venv env && env/bin/python -c 'import sys; print(sys.prefix)'",
        'node -e \'new (require("worker_threads").Worker)("1 + 1", {eval: true})\'',
        'node -e \'require("fs").promises.readFile("/etc/hostname").then(() => 0)\'',
        "npm --version",
        "printf 'all: a b\\na b:\\n\\techo $@\\n' > Makefile && make -j4",
        "git init -q r && cd r && git -c user.name=x -c user.email=x commit -q --allow-empty -m x",
        "tar cf - /etc/hostname 2>/dev/null | tar tf - && rg --version && mkfifo pipe",
        "setsid true && nice true && timeout 5 true && flock lock true",
    ],
)
def test_honest_work_goes_on(inside: DockerSandbox, line: str) -> None:
    result = sh(inside, f"cd $(mktemp -d) && {line}")
    assert result.ok, result.text


def test_a_debugger_may_not_look_into_its_neighbour(inside: DockerSandbox) -> None:
    program = (
        "import os, subprocess\n"
        "child = subprocess.Popen(['sleep', '900'])\n"
        "open(f'/proc/{child.pid}/mem', 'rb+', 0).read(1)"
    )
    assert not python(inside, program).ok
