"""The loaded variant of every figure: other processes that want the whole machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

COUNT = 20
_PROGRAM = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(10**6):
        pass
"""
"""Ends with the benchmark, even if that is killed."""


@contextmanager
def busy(count: int = COUNT) -> Iterator[None]:
    """Keep so many processes of the host busy while the block runs.

    Each has a session of its own: Linux divides processors by sessions first (`autogroup`).
    """
    argv = [sys.executable, "-c", _PROGRAM, str(os.getpid())]
    processes = [subprocess.Popen(argv, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
