"""Commands that take all they can get, at default limits: how soon they end, and whom they disturb.

`python -m benchmarks.sandbox.bombs disk output` runs only these, `--loaded` beside busy processes.
"""

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from math import nan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.busy import busy
from benchmarks.row import Row
from benchmarks.sandbox.speed import p99
from contracts.errors import SandboxLost
from contracts.sandbox import Command
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.images import BASE_IMAGE
from sandbox.spec import SandboxSpec

SPEC = SandboxSpec(image=BASE_IMAGE, owner="harness-bench-bombs", run_id="bench")
TIMEOUT_S = 3.0
BOUND_S = 5.0
"""Seconds that a bomb may take to end after its timeout, and until none of it may be left."""
LATENCY_S = 1.0
"""Seconds in which another sandbox and a shell of the host have to answer meanwhile."""
TARGET = "at most 1, loaded 3"

_C = """
#include <signal.h>
#include <unistd.h>
int main(int count, char **words) {
    int leaves = count > 1;
    if (leaves && fork() > 0) pause();
    for (;;) {
        pid_t child = fork();
        if (leaves && child > 0) _exit(0);
        if (leaves && child == 0) { setsid(); if (fork() == 0) kill(-1, SIGCONT); }
    }
}
"""
_C_PROGRAM = "/tmp/bomb"  # noqa: S108  inside a sandbox
_FORK = """
import os
while True:
    try: os.fork()
    except OSError: pass
"""
_MEMORY = """
import os
for _ in range(5): os.fork()
held = []
while True:
    try: held.append(bytearray(os.urandom(1 << 12) * 1024)); os.fork()
    except OSError: pass
"""
_DESCRIPTORS = """
import os
for _ in range(8):
    try: os.fork()
    except OSError: pass
held = []
while True:
    try: held += os.pipe()
    except OSError: pass
"""
_FILES = """
import os
for _ in range(4): os.fork()
number = 0
while True:
    open(f"/tmp/{os.getpid()}-{number}", "x").close()
    number += 1
"""
_DISK = "for i in 1 2 3 4; do while :; do head -c 2000000000 /dev/zero > $i; done & done; wait"
_OUTPUT = "for i in 1 2 3 4; do yes & yes >&2 & done; wait"

BOMBS: Mapping[str, Sequence[str]] = {
    "fork bomb in C": (_C_PROGRAM,),
    "fork bomb in C, nice 19": ("nice", "-n", "19", _C_PROGRAM),
    "fork bomb in C, nice -19": ("nice", "-n", "-19", _C_PROGRAM),
    "fork bomb in C, parents leave": (_C_PROGRAM, "leave"),
    "fork bomb in Python": ("python3", "-c", _FORK),
    "fork bomb in shell": ("bash", "-c", "b() { b | b & b; }; b"),
    "memory bomb": ("python3", "-c", _MEMORY),
    "descriptor bomb": ("python3", "-c", _DESCRIPTORS),
    "disk bomb": ("bash", "-c", _DISK),
    "bomb of small files": ("python3", "-c", _FILES),
    "output bomb": ("bash", "-c", _OUTPUT),
}

_NEIGHBOUR = ("sleep", "3600")
_COUNT = """
import os
from contextlib import suppress
left = -1  # itself
for name in os.listdir("/proc"):
    with suppress(OSError):
        if name.isdigit() and os.stat(f"/proc/{name}").st_uid:
            left += open(f"/proc/{name}/cmdline").read() != "sleep\\0" "3600\\0"
print(left)
"""


class Explosion(NamedTuple):
    """The seconds from a bomb's timeout to its end, and what was seen meanwhile and afterwards."""

    over_s: float
    end: str
    left: int
    echo_s: float
    shell_s: float


def rows(names: Sequence[str] = tuple(BOMBS)) -> Iterator[Row]:
    """One row for each bomb, and one for each thing that no bomb may do."""
    seen = list[Explosion]()
    with TemporaryDirectory() as folder:
        program = _compiled(Path(folder))
        for name in names:
            label = f"{name}: end after its timeout"
            if _C_PROGRAM in BOMBS[name] and program is None:
                note = "this machine has no C compiler"
                yield Row(name=label, ours=nan, baseline=nan, ratio=nan, target=TARGET, note=note)
                continue
            seen.append(one := explode(BOMBS[name], program))
            note = (
                f"{one.end}; {one.left} left; echo p99 {one.echo_s * 1e3:.0f} ms, "
                f"a shell at most {one.shell_s * 1e3:.0f} ms"
            )
            yield _row(label, one.over_s, BOUND_S, TARGET, note)
    for label, worst, bound, target in (
        ("processes alive 5 s after a bomb", max(one.left for one in seen), len(seen), "0"),
        ("echo p99 of another sandbox", max(one.echo_s for one in seen), LATENCY_S, "at most 1"),
        ("slowest shell of the host", max(one.shell_s for one in seen), LATENCY_S, "at most 1"),
    ):
        yield _row(f"{label}, worst of the bombs", worst, bound, target)


def _row(name: str, ours: float, baseline: float, target: str, note: str = "") -> Row:
    unit = "" if target == "0" else "s"
    ratio = ours / baseline
    return Row(
        name=name, ours=ours, baseline=baseline, ratio=ratio, target=target, unit=unit, note=note
    )


def explode(argv: Sequence[str], program: Path | None) -> Explosion:
    """Run a bomb to its end, beside another command of its sandbox and beside another sandbox."""
    engine = DockerEngine()
    with (
        ThreadPoolExecutor(1) as threads,
        DockerSandbox.start(engine, SPEC) as other,
        DockerSandbox.start(engine, SPEC) as sandbox,
    ):
        if program is not None:
            sandbox.write_file(_C_PROGRAM, program)
            sandbox.exec(Command(argv=("chmod", "+x", _C_PROGRAM)))
        threads.submit(_run, sandbox, Command(argv=_NEIGHBOUR))
        with (
            _timing(lambda: other.exec(Command(argv=("echo",)))) as echoes,
            _timing(_shell) as shells,
        ):
            began = time.monotonic()
            end = _run(sandbox, Command(argv=argv, timeout_s=TIMEOUT_S))
            over_s = time.monotonic() - began - TIMEOUT_S
        gone_by = time.monotonic() + BOUND_S
        while (left := _left(sandbox)) and time.monotonic() < gone_by:
            time.sleep(0.2)
    return Explosion(over_s, end, left, p99(echoes), max(shells))


def _run(sandbox: DockerSandbox, command: Command) -> str:
    """Return how the command ended."""
    try:
        result = sandbox.exec(command)
    except SandboxLost as error:
        return f"lost: {error}"
    facts = ("timed_out", "out_of_memory", "out_of_disk")
    said = [fact.replace("_", " ") for fact in facts if getattr(result, fact)]
    return ", ".join(said) or f"exit code {result.exit_code}"


def _left(sandbox: DockerSandbox) -> int:
    """Return how many processes of the bomb are left; 1 for a sandbox that cannot be used."""
    try:
        counted = sandbox.exec(Command(argv=("python3", "-c", _COUNT), timeout_s=BOUND_S))
    except SandboxLost:  # its container is gone, or cannot be used
        return int(DockerEngine().has(sandbox.container_id))
    return int(counted.stdout) if counted.ok else 1


def _shell() -> None:
    subprocess.run(["sh", "-c", "true"], check=True)


@contextmanager
def _timing(act: Callable[[], object]) -> Iterator[list[float]]:
    """Give the seconds that the act took each time; a thread repeats it while the block runs."""
    times, over = list[float](), threading.Event()

    def repeat() -> None:
        while not over.wait(0.02):
            began = time.monotonic()
            act()
            times.append(time.monotonic() - began)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield times
    finally:
        over.set()
        thread.join()


def _compiled(folder: Path) -> Path | None:
    compiler, program = shutil.which("cc"), folder / "bomb"
    if compiler is None:
        return None
    argv = [compiler, "-static", "-x", "c", "-o", str(program), "-"]
    subprocess.run(argv, input=_C, text=True, check=True)
    return program


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--loaded"]
    chosen = [name for name in BOMBS if not words or any(word in name for word in words)]
    with busy() if "--loaded" in sys.argv else nullcontext():
        for row in rows(chosen):
            print(row, flush=True)
