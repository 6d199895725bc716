"""Bare repositories behind HTTP that asks for a name and a password: git's own backend, and LFS."""

import json
import os
import subprocess
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def git_server(folder: Path, *, user: str, password: str) -> Iterator[str]:
    """Serves the repositories in the folder to whoever knows the password; gives host:port.

    Their git LFS files are what lies in the folder `lfs` of each, by object id.
    """
    wanted = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve(b"")

        def do_POST(self) -> None:
            self._serve(self.rfile.read(int(self.headers["Content-Length"])))

        def log_message(self, *_: object) -> None:
            pass

        def _serve(self, body: bytes) -> None:
            if self.headers.get("Authorization") != wanted:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            place, is_lfs, rest = path.partition("/info/lfs/objects/")
            if is_lfs:
                self._serve_lfs(folder / place.lstrip("/") / "lfs", rest, body)
                return
            env = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REMOTE_USER": user,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            backend = subprocess.run(
                ("git", "http-backend"), env=env, input=body, capture_output=True, check=True
            )
            head, _, content = backend.stdout.partition(b"\r\n\r\n")
            fields = [line.split(": ", 1) for line in head.decode().split("\r\n")]
            status = next((value.split()[0] for name, value in fields if name == "Status"), "200")
            self.send_response(int(status))
            for name, value in fields:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def _serve_lfs(self, files: Path, rest: str, body: bytes) -> None:
            if rest == "batch":
                asked = json.loads(body)["objects"]
                known = [one for one in asked if (files / one["oid"]).exists()]
                here = f"http://{self.headers['Host']}{self.path.removesuffix('batch')}"
                objects = [
                    {**one, "actions": {"download": {"href": f"{here}{one['oid']}"}}}
                    for one in known
                ] + [{**one, "error": {"code": 404}} for one in asked if one not in known]
                answer, kind = json.dumps({"objects": objects}).encode(), "vnd.git-lfs+json"
            else:
                answer, kind = (files / rest).read_bytes(), "octet-stream"
            self.send_response(200)
            self.send_header("Content-Type", f"application/{kind}")
            self.end_headers()
            self.wfile.write(answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
