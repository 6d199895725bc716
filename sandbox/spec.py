"""What a sandbox may use, and the hardening that none can be started without."""

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
POOL_LABEL: Final = "harness.pool"
"""Of a container that was started before its run: which others it can stand in for; else empty."""
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
    """Memory of all processes and of what they cache in /dev/shm; there is no swap."""
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
    """The sandbox that is wanted."""

    image: str
    owner: str
    """Whose it is: the reaper removes what bears its own owner's label, nothing else."""
    run_id: str
    limits: SandboxLimits = SandboxLimits()
    ttl_s: float = Field(default=4 * 3600.0, gt=0)
    """The container stops by itself after this long, whoever still lives."""
    work_dir: str = WORK_DIR


def create_flags(spec: SandboxSpec, *, idle_s: float | None = None) -> dict[str, object]:
    """The keyword arguments of docker's `containers.create` for this sandbox.

    It ends by itself after `idle_s`, or its `ttl_s`, when nobody greets its supervisor.

    The supervisor is process 1, which no command can kill, and reaps as an init does. It is
    root with three capabilities: it must be able to change its user, and to kill. Asked to
    stop it is killed: nothing in it is worth the ten seconds that an engine would wait.

    An engine that is told of no network at all makes the same empty namespace with a loopback,
    in half the time; nor does it tell the sandbox by which servers the host resolves names.
    """
    limits = spec.limits
    argv = supervisor_argv(idle_s or spec.ttl_s)
    return {
        "image": spec.image,
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
        "cap_add": ["SETUID", "SETGID", "KILL"],
        "security_opt": ["no-new-privileges", f"seccomp={_SECCOMP.read_text()}"],
        "log_config": {"type": "none"},
        "healthcheck": {"test": ["NONE"]},
        "pids_limit": limits.pids,
        "mem_limit": f"{limits.memory_mb}m",
        "memswap_limit": f"{limits.memory_mb}m",
        "nano_cpus": int(limits.cpus * 1e9),
        "shm_size": f"{limits.shm_mb}m",
        "ulimits": [
            {"name": "nofile", "soft": limits.nofile, "hard": limits.nofile},
            {"name": "fsize", "soft": limits.file_size_mb << 20, "hard": limits.file_size_mb << 20},
            {"name": "core", "soft": 0, "hard": 0},
        ],
    }


def container_labels(spec: SandboxSpec, idle_s: float = 0.0) -> dict[str, str]:
    """The labels that let the reaper tell whose it is and whether it is still wanted.

    None of the pool's, also where the files are those of one: an image hands its labels on.
    """
    return {
        POOL_LABEL: "",
        OWNER_LABEL: spec.owner,
        RUN_ID_LABEL: spec.run_id,
        CREATOR_LABEL: process_label(os.getpid()),
        DEADLINE_LABEL: str(int(time.time() + idle_s + spec.ttl_s)),
    }


def taken_name(container: str) -> str:
    """What a container that was started ahead is called once a run has taken it."""
    return f"harness-taken-{container[:12]}"


def supervisor_argv(ttl_s: float) -> list[str]:
    """The container's main process: it ends after `ttl_s`, unless the harness says more."""
    python = ["python3", "-I", "-S", "-X", "utf8", "-c", _BOOTSTRAP]
    return [*python, str(ttl_s), _sources()]


@cache
def _sources() -> str:
    """The supervisor's modules, each after its name; compiled when it is first needed.

    Packed: an engine goes through a container's arguments dozens of times, and keeps them with
    each snapshot, where they are read again whenever images are listed.
    """
    files = sorted(Path(supervisor.__file__).parent.glob("[!_]*.py"))
    named = {f"sandbox.supervisor.{file.stem}": lean(file.read_text()) for file in files}
    modules = {"sandbox": "", "sandbox.supervisor": "", **named}
    whole = chr(30).join(part for module in modules.items() for part in module)
    return b64encode(compress(whole.encode(), 9)).decode()


def lean(source: str) -> str:
    """Without `typing`, a tenth of the start-up, and without what is written for people."""
    source = re.sub(r"^from typing import .*$", "", source, flags=re.MULTILINE)
    return re.sub(r'^( *)""".*?"""$', r'\1""', source, flags=re.MULTILINE | re.DOTALL)
