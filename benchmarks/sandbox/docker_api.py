"""The baseline: one command by the Docker API, with nothing in between but one connection."""

import http.client
import json
import os
import socket
import threading
from urllib.parse import urlsplit

API = "/v1.41"


class DockerExec:
    """Runs `true` in a container, by three requests on a kept connection for each thread."""

    def __init__(self, container: str) -> None:
        self._container = container
        self._local = threading.local()

    def __call__(self) -> None:
        """Run it, and see that it exits 0."""
        wanted = {"Cmd": ["true"], "AttachStdout": True, "AttachStderr": True, "User": "1000"}
        made = json.loads(self._ask("POST", f"/containers/{self._container}/exec", wanted))
        self._ask("POST", f"/exec/{made['Id']}/start", {"Detach": False, "Tty": False})
        assert json.loads(self._ask("GET", f"/exec/{made['Id']}/json"))["ExitCode"] == 0

    def _ask(self, method: str, path: str, body: object = None) -> bytes:
        if not hasattr(self._local, "connection"):
            self._local.connection = _Connection("docker")
        headers = {"Content-Type": "application/json"}
        self._local.connection.request(method, API + path, json.dumps(body), headers)
        answer: bytes = self._local.connection.getresponse().read()
        return answer


class _Connection(http.client.HTTPConnection):
    def connect(self) -> None:
        url = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(url.path)
