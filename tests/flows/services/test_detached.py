"""Processes that outlive the process that started them."""

import os
import signal
import sys
from pathlib import Path

import pytest

from flows.services.daemon import start_detached
from sandbox.process_label import has_exited, process_label
from tests.support.waiting import wait_until


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_detached_process_receives_sigint(tmp_path: Path, sign: signal.Signals) -> None:
    """Also where who starts it is deaf to Ctrl-C, as a shell's job in the background."""
    log = tmp_path / "log"
    argv = (sys.executable, "-c", "print('up', flush=True); import time; time.sleep(900)")
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
    pid = start_detached(argv, cwd=tmp_path, log=log)
    signal.signal(signal.SIGINT, heard)
    label = process_label(pid)
    wait_until(lambda: log.read_text() == "up\n")
    os.kill(pid, sign)
    wait_until(lambda: has_exited(label))
