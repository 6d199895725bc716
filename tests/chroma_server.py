"""A `chroma run` on a free port."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.postgres import free_port


@contextmanager
def chroma(data: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Its address and its process, until the block ends; the vectors stay in the folder."""
    port = free_port()
    program = str(Path(sys.executable).with_name("chroma"))
    argv = [program, "run", "--path", str(data), "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url)
        yield url, server
    finally:
        server.kill()
        server.wait()


def _wait(url: str) -> None:
    for _ in range(300):
        try:
            if httpx.get(f"{url}/api/v2/heartbeat").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    pytest.fail("chroma run did not answer within 30 s")
