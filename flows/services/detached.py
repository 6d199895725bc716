"""Start a process that outlives this one."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# Prefect's worker ends by SIGINT, to which a shell's `&` leaves a process and all it starts deaf.
_START = """
import os, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
cwd, log, *argv = sys.argv[1:]
said = open(log, "ab")
started = subprocess.Popen(argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
print(started.pid, flush=True)
os._exit(0)
"""


def start_detached(
    argv: Sequence[str], *, cwd: Path, log: Path, env: Mapping[str, str] | None = None
) -> int:
    """Start argv in a session of its own, writing to `log`, and give its pid.

    It is no child of ours, so nobody has to wait for it: the process that started it is gone.
    """
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _START, str(cwd), str(log), *argv],
        env=env,
        start_new_session=True,
        check=True,
        stdout=subprocess.PIPE,
    )
    return int(done.stdout)
