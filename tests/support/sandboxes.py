"""Shared by the tests of sandboxes."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

import pytest

from contracts.errors import ImageUnavailable
from contracts.sandbox import Command, ExecResult
from sandbox.container import DockerSandbox
from sandbox.engine import DockerEngine
from sandbox.routes import is_public
from sandbox.spec import SandboxLimits
from tests.support.waiting import LONG_S

StartSandbox = Callable[[SandboxLimits], DockerSandbox]


OWNER = "harness-tests"


SLEEP = Command(argv=("sh", "-c", "echo; exec sleep 900"))


def begin(sandbox: DockerSandbox, threads: ThreadPoolExecutor) -> "Future[ExecResult]":
    """Have a thread run a command that sleeps, and return once the command has begun."""
    begun = threading.Event()
    running = threads.submit(sandbox.exec, SLEEP, lambda _stream, _data: begun.set())
    assert begun.wait(LONG_S)
    return running


def inspected(engine: DockerEngine, image: str) -> str:
    with engine.client("look at an image") as client:
        return json.dumps([client.api.inspect_image(image), client.api.history(image)])


def images_that_name(engine: DockerEngine, owner: str) -> set[str]:
    """Every image, dangling or not, that bears the owner anywhere, labels or not."""
    with engine.client("look at all images") as client:
        every = [str(image["Id"]) for image in client.api.images(all=True)]
    found = set[str]()
    for image in every:
        with suppress(ImageUnavailable):  # others come and go
            if owner in inspected(engine, image):
                found.add(image)
    return found


_PIP_HOSTS = (
    "from pip._internal.models.index import PyPI; print(PyPI.netloc, PyPI.file_storage_domain)"
)


def said(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def pip_hosts() -> list[str]:
    """The hosts that pip uses here, by its own word."""
    index = said(sys.executable, "-m", "pip", "config", "get", "global.index-url")
    own = urlsplit(index.strip()).hostname
    return [own] if own else said(sys.executable, "-c", _PIP_HOSTS).split()


def off_the_internet(hosts: list[str]) -> list[str]:
    """Addresses of these hosts that an operator has to vouch for; skips where none is found."""
    try:
        found = {str(p[0]) for h in hosts for *_, p in socket.getaddrinfo(h, 443)}
    except OSError as error:
        pytest.skip(f"no registry is reached from here: {error}")
    return sorted(address for address in found if not is_public(ip_address(address)))
