"""A forge on loopback that answers as the real ones' documentation shows, and keeps what it got."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Shape = dict[str, object]
TOKEN = "t0ken-of-the-team"


@dataclass
class FakeForge:
    """What it knows, and what was asked of it. `refuses` answers every POST with 403."""

    url: str = ""
    branches: tuple[str, ...] = ("main",)
    refuses: bool = False
    opened: list[Shape] = field(default_factory=list)

    def answer(
        self, method: str, path: str, sent: dict[str, str], asked: Shape
    ) -> tuple[int, object]:
        place = urlsplit(path)
        kind, _, rest = place.path.strip("/").partition("/")
        if TOKEN not in sent.get("Authorization", "") + sent.get("PRIVATE-TOKEN", ""):
            return 401, {"message": "Bad credentials"}
        if method == "POST":
            return self._open(kind, asked)
        if rest.endswith(("/pulls", "/merge_requests")):
            return 200, [self._shape(kind, number + 1) for number in range(len(self.opened))]
        if "/branches/" in rest:
            name = rest.rpartition("/")[2]
            return (200, {"name": name}) if name in self.branches else (404, {})
        return 200, {"full_name": "team/app", "default_branch": "main"}

    def _open(self, kind: str, asked: Shape) -> tuple[int, object]:
        if self.refuses:
            return 403, {"message": "Resource not accessible by personal access token"}
        branch = asked.get("head") or asked.get("source_branch")
        if any(branch in (one.get("head"), one.get("source_branch")) for one in self.opened):
            return (422 if kind == "github" else 409), {"message": "A pull request already exists"}
        self.opened.append(asked)
        return 201, self._shape(kind, len(self.opened))

    def _shape(self, kind: str, number: int) -> Shape:
        asked = self.opened[number - 1]
        if kind == "gitlab":
            page = f"{self.url}/team/app/-/merge_requests/{number}"
            return {"iid": number, "web_url": page, "source_branch": asked["source_branch"]}
        page = f"{self.url}/team/app/pulls/{number}"
        return {"number": number, "html_url": page, "head": {"ref": asked["head"]}}


@contextmanager
def fake_forge() -> Iterator[FakeForge]:
    """One that listens until the block ends; the first part of a path says whom it plays."""
    forge = FakeForge()

    class Answers(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            asked = json.loads(self.rfile.read(length) or b"{}")
            status, body = forge.answer(self.command, self.path, dict(self.headers), asked)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        do_GET = do_POST = _answer  # noqa: N815 - the names that http.server calls

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        forge.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield forge
        server.shutdown()
