"""Start a process that outlives this one."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_START = 'cd "$1" && log=$2 && shift 2 && { "$@" >>"$log" 2>&1 </dev/null & echo $!; }'


def start_detached(
    argv: Sequence[str], *, cwd: Path, log: Path, env: Mapping[str, str] | None = None
) -> int:
    """Start argv in a session of its own, writing to `log`, and give its pid.

    It is no child of ours, so nobody has to wait for it: the shell that started it is gone.
    """
    done = subprocess.run(
        ["sh", "-c", _START, "sh", str(cwd), str(log), *argv],
        env=env,
        start_new_session=True,
        check=True,
        stdout=subprocess.PIPE,
    )
    return int(done.stdout)
