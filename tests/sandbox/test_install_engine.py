"""The script of the set-up that looks for a Docker engine."""

import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socket import AF_INET6
from threading import Thread

import pytest

SCRIPT = Path(__file__).parents[2] / "sandbox" / "install_engine.sh"


class _Ping(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class _Engine(HTTPServer):
    address_family = AF_INET6


@pytest.fixture
def engine_port() -> Iterator[int]:
    with _Engine(("::1", 0), _Ping) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def looked_for(docker_host: str) -> "subprocess.CompletedProcess[str]":
    """What it says with a PATH on which there is no Python."""
    env = {"DOCKER_HOST": docker_host, "PATH": "/nowhere"}
    argv = ("/bin/bash", str(SCRIPT), sys.executable)
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "docker_host",
    ["/var/run/docker.sock", "tcp://h:abc", "tcp://[", "unix:///nowhere.sock", "tcp://"],
)
def test_an_unusable_engine_address_is_reported_in_one_line(docker_host: str) -> None:
    done = looked_for(docker_host)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert f"DOCKER_HOST is {docker_host}: start that one" in done.stderr


def test_an_engine_with_an_address_of_ipv6_counts(engine_port: int) -> None:
    done = looked_for(f"tcp://[::1]:{engine_port}")
    assert (done.returncode, done.stderr) == (0, "")
