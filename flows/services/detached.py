"""Start a process that outlives this one."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# A shell's `&` makes a process and its children ignore SIGINT, which is how Prefect's worker ends.
_START = """
import os, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
cwd, log, *argv = sys.argv[1:]
output = open(log, "ab")
started = subprocess.Popen(argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
print(started.pid, flush=True)
os._exit(0)
"""


def start_detached(
    argv: Sequence[str], *, cwd: Path, log: Path, env: Mapping[str, str] | None = None
) -> int:
    """Start argv in a session of its own, with its output appended to `log`; return its pid.

    A second process starts it and exits, so it is not a child of this one and leaves no zombie.
    """
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _START, str(cwd), str(log), *argv],
        env=env,
        start_new_session=True,
        check=True,
        stdout=subprocess.PIPE,
    )
    return int(done.stdout)
