"""The specification of a sandbox: its limits, and the hardening that every container has."""

import os
import re
import time
from base64 import b64encode
from functools import cache
from pathlib import Path
from typing import Final
from zlib import compress

from pydantic import BaseModel, Field

from sandbox import supervisor
from sandbox.process_label import process_label

OWNER_LABEL: Final = "harness.owner"
RUN_ID_LABEL: Final = "harness.run_id"
CREATOR_LABEL: Final = "harness.boot"
DEADLINE_LABEL: Final = "harness.deadline"
WORK_DIR: Final = "/workspace"

_SECCOMP = Path(__file__).with_name("seccomp.json")
_BOOTSTRAP = """
import sys
from binascii import a2b_base64
from zlib import decompress

parts = decompress(a2b_base64(sys.argv[2])).decode().split(chr(30))
sources = dict(zip(parts[::2], parts[1::2]))

class Finder:
    def find_spec(name, path=None, target=None):
        if name in sources:
            return type(sys.__spec__)(name, Finder, is_package=not sources[name])

    def create_module(spec):
        return None

    def exec_module(module):
        exec(compile(sources[module.__name__], module.__name__, "exec"), module.__dict__)

sys.meta_path.insert(0, Finder)
from sandbox.supervisor.event_loop import main
main(float(sys.argv[1]))
"""


class SandboxLimits(BaseModel, frozen=True, extra="forbid"):
    """How much of the machine one sandbox may use."""

    memory_mb: int = Field(default=4096, ge=16)
    """Memory of all processes and of files in /dev/shm; there is no swap."""
    cpus: float = Field(default=2.0, gt=0)
    """Processor time per second of wall time."""
    pids: int = Field(default=1024, ge=16)
    """Processes and threads at one time; the supervisor is one of them."""
    nofile: int = Field(default=4096, ge=256)
    """Open files of one process."""
    file_size_mb: int = Field(default=2048, ge=1)
    """Size of one file."""
    disk_mb: int = Field(default=16_384, ge=1)
    """Size of all files; above it, all running commands are killed within seconds."""
    shm_mb: int = Field(default=256, ge=1)
    """Size of /dev/shm."""


class SandboxSpec(BaseModel, frozen=True, extra="forbid"):
    """The specification of one sandbox."""

    image: str
    owner: str
    """Owner label: the reaper removes only containers with its own owner."""
    run_id: str
    limits: SandboxLimits = SandboxLimits()
    ttl_s: float = Field(default=4 * 3600.0, gt=0)
    """Seconds after which the container stops by itself."""
    work_dir: str = WORK_DIR
    runtime: str | None = None
    """OCI runtime of the engine, such as `runsc`; None: the engine's default."""


def create_flags(spec: SandboxSpec) -> dict[str, object]:
    """Return the keyword arguments of docker-py's `containers.create` for this sandbox.

    The supervisor is process 1, which no command can kill, and reaps orphans as an init does. It
    is root with four capabilities: to change its user, to kill, and to raise its own priority. Its
    stop signal is SIGKILL, as it has nothing to save in the ten seconds that Docker would wait.

    With `network_disabled`, Docker creates the same empty network namespace in half the time, and
    does not write the host's name servers into the sandbox.
    """
    limits = spec.limits
    # No environment: `docker commit` keeps it, so a secret there would be in each snapshot.
    argv = supervisor_argv(spec.ttl_s)
    return {
        "image": spec.image,
        "runtime": spec.runtime,
        "entrypoint": argv[:1],
        "command": argv[1:],
        "stdin_open": True,
        "stop_signal": "SIGKILL",
        "user": "0:0",
        "hostname": "sandbox",
        "working_dir": "/",
        "labels": container_labels(spec),
        "auto_remove": True,
        "network_mode": "none",
        "network_disabled": True,
        "ipc_mode": "private",
        "cap_drop": ["ALL"],
        "cap_add": ["SETUID", "SETGID", "KILL", "SYS_NICE"],
        # The old profile of Debian's Docker allows io_uring, among others.
        "security_opt": ["no-new-privileges", f"seccomp={_SECCOMP}"],
        # The stream would be written to a file of the host without limit.
        "log_config": {"type": "none"},
        "healthcheck": {"test": ["NONE"]},
        "pids_limit": limits.pids,
        "mem_limit": f"{limits.memory_mb}m",
        # The same number: memory and swap together, so no swap.
        "memswap_limit": f"{limits.memory_mb}m",
        "nano_cpus": int(limits.cpus * 1e9),
        "shm_size": f"{limits.shm_mb}m",
        "ulimits": [
            {"name": "nofile", "soft": limits.nofile, "hard": limits.nofile},
            {"name": "fsize", "soft": limits.file_size_mb << 20, "hard": limits.file_size_mb << 20},
            # A core dump is written where the host's kernel.core_pattern says.
            {"name": "core", "soft": 0, "hard": 0},
        ],
    }


def container_labels(spec: SandboxSpec) -> dict[str, str]:
    """Return the labels by which the reaper decides whether a container is left over."""
    return {
        OWNER_LABEL: spec.owner,
        RUN_ID_LABEL: spec.run_id,
        CREATOR_LABEL: process_label(os.getpid()),
        DEADLINE_LABEL: str(int(time.time() + spec.ttl_s)),
    }


def supervisor_argv(ttl_s: float) -> list[str]:
    """Return the argv of the container's main process: the supervisor's source as a program."""
    python = ["python3", "-I", "-S", "-X", "utf8", "-c", _BOOTSTRAP]
    return [*python, str(ttl_s), _sources()]


@cache
def _sources() -> str:
    """Return the supervisor's modules with their names, compressed.

    Docker copies a container's arguments often, and stores them with each snapshot.
    """
    files = sorted(Path(supervisor.__file__).parent.glob("[!_]*.py"))
    named = {f"sandbox.supervisor.{file.stem}": lean(file.read_text()) for file in files}
    modules = {"sandbox": "", "sandbox.supervisor": "", **named}
    whole = chr(30).join(part for module in modules.items() for part in module)
    return b64encode(compress(whole.encode(), 9)).decode()


def lean(source: str) -> str:
    """Remove docstrings, and imports of `typing`, which take a tenth of the start-up time."""
    source = re.sub(r"^from typing import .*$", "", source, flags=re.MULTILINE)
    return re.sub(r'^( *)""".*?"""$', r'\1""', source, flags=re.MULTILINE | re.DOTALL)
