"""A `chroma run` on a free port."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.here import here
from tests.support.postgres import free_port
from tests.support.waiting import wait_until


@contextmanager
def chroma(data: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Its address and its process, until the block ends; the vectors stay in the folder."""
    port = free_port()
    program = str(Path(sys.executable).with_name("chroma"))
    argv = [program, "run", "--path", str(data), "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: server.poll() is not None or _answers(url))
        assert server.poll() is None, "chroma run ended at once"
        yield url, server
    finally:
        server.kill()
        server.wait()


def _answers(url: str) -> bool:
    try:
        return here().get(f"{url}/api/v2/heartbeat").is_success
    except httpx.TransportError:
        return False
