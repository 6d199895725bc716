"""A forge on loopback that answers as the documentation of GitHub, GitLab and Gitea shows.

One `RecordedForge` plays one of the three. A test says what its checks report, who may write, and
which requests go wrong, and then reads what the forge holds. The answers of each API are in
`forge_github.py`, `forge_gitlab.py` and `forge_gitea.py`.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, Protocol, cast
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from tests.support import forge_gitea, forge_github, forge_gitlab
from tests.support.forge_state import Answer, Asked, ForgeState, Listing, Pull, Shape

ForgeKind = Literal["github", "gitlab", "gitea"]


class Dialect(Protocol):
    """What the module of one API gives."""

    UNAUTHORIZED: Answer
    NOT_FOUND: Answer
    ROUTES: tuple[tuple[str, str, Callable[..., Answer | Listing]], ...]

    def knows_token(self, asked: Asked) -> bool: ...
    def stored_log(self, state: ForgeState, asked: Asked) -> Answer: ...


_DIALECTS: dict[ForgeKind, Dialect] = {
    "github": cast("Dialect", forge_github),  # mypy takes no module of a dictionary for a protocol
    "gitlab": cast("Dialect", forge_gitlab),
    "gitea": cast("Dialect", forge_gitea),
}
_PREFIX = {"github": "/api/v3", "gitlab": "/api/v4", "gitea": "/api/v1"}
_SIZE_PARAMETER = {"github": "per_page", "gitlab": "per_page", "gitea": "limit"}


@dataclass
class RecordedForge:
    """One forge: its kind, where it listens, what it holds, and what was asked of it."""

    kind: ForgeKind
    url: str = ""
    state: ForgeState = field(default_factory=ForgeState)
    troubles: list[Answer] = field(default_factory=list)
    """Answers that the next requests get instead of the right ones."""
    most_per_page: int = 50
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of every request, in order."""

    @property
    def api(self) -> str:
        """The address that the setting `api` of a forge names."""
        return f"{self.url}{_PREFIX[self.kind]}"

    @property
    def pull(self) -> Pull:
        """The only pull request."""
        [only] = self.state.pulls
        return only

    def answer(self, asked: Asked) -> Answer:
        """Answer one request of the API, or for a log that is kept elsewhere."""
        dialect = _DIALECTS[self.kind]
        if asked.path.startswith("/storage/"):
            return dialect.stored_log(self.state, asked)
        if self.troubles:
            return self.troubles.pop(0)
        if self.state.revoked or not dialect.knows_token(asked):
            return dialect.UNAUTHORIZED
        for method, pattern, reply in dialect.ROUTES:
            found = re.fullmatch(pattern, asked.path)
            if method == asked.method and found:
                answer = reply(self.state, asked, *found.groups())
                return self._page(answer, asked) if isinstance(answer, Listing) else answer
        return dialect.NOT_FOUND

    def _page(self, listing: Listing, asked: Asked) -> Answer:
        """Return one page of a list, with the link to the next one as RFC 8288 writes it."""
        name = _SIZE_PARAMETER[self.kind]
        size = min(int(asked.query.get(name, self.most_per_page)), self.most_per_page)
        number = int(asked.query.get("page", 1))
        rest = listing.items[number * size :]
        headers = {}
        if rest:
            query = urlencode({**asked.query, "page": number + 1, name: size})
            headers["Link"] = f'<{self.url}{asked.raw_path}?{query}>; rel="next"'
        return Answer(
            200, listing.wrap(listing.items[(number - 1) * size : number * size]), headers
        )


@contextmanager
def recorded_forge(kind: ForgeKind) -> Iterator[RecordedForge]:
    """Return a forge of this kind that listens until the block ends."""
    forge = RecordedForge(kind)
    lock = threading.Lock()

    class Answers(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            asked = Asked(
                method=self.command,
                path=parts.path.removeprefix(_PREFIX[kind]),
                raw_path=parts.path,
                query={name: values[-1] for name, values in parse_qs(parts.query).items()},
                headers={name.lower(): value for name, value in self.headers.items()},
                body=json.loads(body or b"{}"),
            )
            with lock:
                forge.requests.append((self.command, unquote(asked.path)))
                answer = forge.answer(asked)
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_PUT = do_PATCH = _answer  # noqa: N815 - the names that http.server calls

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        forge.url = forge.state.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield forge
        finally:
            server.shutdown()


__all__ = ["Answer", "ForgeKind", "Pull", "RecordedForge", "Shape", "recorded_forge"]
