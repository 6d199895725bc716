"""A package index of this machine with one wheel of pure Python for each name."""

import base64
import hashlib
import io
import socket
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

HOST = "index.test"
"""A name that only tests resolve; see `resolve_here`."""


class WheelIndex:
    """The address of the index, and the paths that were asked for."""

    def __init__(self, port: int) -> None:
        self.url = f"http://{HOST}:{port}/simple"
        self.asked: list[str] = []


@contextmanager
def wheel_index(*names: str) -> Iterator[WheelIndex]:
    """Serve wheels of these names until the block ends."""
    wheels = {f"/files/{name}-1.0-py3-none-any.whl": wheel(name) for name in names}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.append(self.path)
            body, kind = wheels.get(self.path), "application/octet-stream"
            if body is None:
                name = self.path.rstrip("/").rpartition("/")[2]
                file = f"{name}-1.0-py3-none-any.whl"
                found = f"/files/{file}" in wheels
                body = f'<a href="/files/{file}">{file}</a>'.encode() if found else b""
                kind = "text/html"
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        index = WheelIndex(server.server_address[1])
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield index
        server.shutdown()


def resolve_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `HOST` lead to this machine, in this process."""
    usual = socket.getaddrinfo

    def resolve(host: str, *args: object, **more: object) -> object:
        return usual("127.0.0.1" if host == HOST else host, *args, **more)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def wheel(name: str, version: str = "1.0") -> bytes:
    """Return a wheel with one module, whose `VALUE` is 1."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": "VALUE = 1\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{path},{_digest(text)},{len(text)}" for path, text in files.items()]
    record = "\n".join([*lines, f"{info}/RECORD,,", ""])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return packed.getvalue()


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
