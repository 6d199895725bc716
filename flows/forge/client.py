"""Requests to the REST API of a forge: retries, rate limits, pages, errors without the token."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, assert_never, cast
from urllib.parse import quote, urlsplit

from contracts.errors import ForgeAway, ForgeRefused
from sandbox.output import HeadAndTail

if TYPE_CHECKING:
    import httpx

ForgeKind = Literal["github", "gitlab", "gitea"]
Shape = Mapping[str, object]

TIMEOUT_S = 30.0
LONGEST_WAIT_S = 60.0
"""Longest wait for a rate limit inside one request; a longer one is an error."""
MOST_TRIES = 4
MOST_PAGES = 20
LOG_BYTES = 4 * 1024 * 1024
"""Bytes of a text that are kept at most: of a longer one its beginning and its end."""

_REPEATABLE = {"GET", "PUT", "PATCH"}
"""Methods that may be sent again after a server error, when nobody knows what was done."""


@dataclass(frozen=True, kw_only=True)
class Forge:
    """API address, project and token for one repository. `api` ends without a slash."""

    kind: ForgeKind
    api: str
    project: str
    token: str = field(repr=False)
    draft: bool = True
    """Open pull requests as drafts."""
    answers: int = 10
    """Comments on one pull request that its run answers at most."""

    @property
    def repository(self) -> str:
        """Path of the project in the API."""
        if self.kind == "gitlab":
            return f"/projects/{quote(self.project, safe='')}"
        return f"/repos/{quote(self.project)}"

    @property
    def pulls(self) -> str:
        """Path of the project's pull requests."""
        return f"{self.repository}/{'merge_requests' if self.kind == 'gitlab' else 'pulls'}"


class ForgeClient:
    """An open connection to a forge; `connect` makes it."""

    def __init__(
        self, http: "httpx.Client", forge: Forge, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._http = http
        self._forge = forge
        self._sleep = sleep

    def get(self, path: str, **params: str) -> Any:
        """Return the JSON at this path."""
        return self.send("GET", path, params=params).raise_for_status().json()

    def get_if_known(self, path: str) -> Shape | None:
        """Return the JSON object at this path; None if the forge knows nothing there."""
        answer = self.send("GET", path)
        return None if answer.status_code == 404 else answer.raise_for_status().json()

    def exists(self, path: str) -> bool:
        """Return whether the forge shows something at this path."""
        return self.send("GET", path).is_success

    def pages(self, path: str, *, key: str = "", **params: str) -> list[Shape]:
        """Return a list from all its pages; `key` names the list in the answers."""
        size = "limit" if self._forge.kind == "gitea" else "per_page"
        answer = self.send("GET", path, params={size: "100", **params}).raise_for_status()
        found: list[Shape] = []
        for _ in range(MOST_PAGES):
            body = answer.json()
            found += (body[key] or ()) if key else body
            link = answer.links.get("next")
            if link is None:
                break
            answer = self.send("GET", self._own(link["url"])).raise_for_status()
        return found

    def text(self, path: str) -> str | None:
        """Return the text at this path, where one redirect may lead; None if there is none.

        The redirect is followed without the token: it leads to another host.
        """
        import httpx

        with closing(self.send("GET", path, stream=True)) as answer:
            if not answer.is_redirect:
                return _text(answer)
            link = answer.headers["Location"]
        if urlsplit(link).scheme != urlsplit(self._forge.api).scheme:
            return None
        with httpx.stream("GET", link, timeout=TIMEOUT_S, follow_redirects=False) as there:
            return _text(there)

    def send(
        self,
        method: str,
        path: str,
        *,
        json: Shape | None = None,
        params: Mapping[str, str] | None = None,
        stream: bool = False,
    ) -> "httpx.Response":
        """Send a request, and send it again after a rate limit or a passing failure.

        With `stream` the body of the answer is not read, and the caller closes the answer.

        Raises:
            ForgeAway: the forge fails again and again, or allows no request for a while.
        """
        import httpx

        for number in range(1, MOST_TRIES + 1):
            try:
                request = self._http.build_request(method, path, json=json, params=params)
                answer = self._http.send(request, stream=stream)
            except httpx.TransportError as error:
                if number == MOST_TRIES or method not in _REPEATABLE:
                    raise ForgeAway(f"{type(error).__name__}: {error}") from error
                wait_s = float(2**number)
            else:
                found = _wait_s(answer, method, number)
                if found is None:
                    return answer
                wait_s = found
                answer.read()
                if number == MOST_TRIES or wait_s > LONGEST_WAIT_S:
                    raise ForgeAway(f"{answer.status_code} {_words(answer)}, after {number} tries")
            self._sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    def _own(self, link: str) -> str:
        """Return a link to a next page, if it leads to the same host: it is sent the token."""
        if urlsplit(link).netloc != urlsplit(self._forge.api).netloc:
            raise ValueError(f"the next page is on another host, {urlsplit(link).hostname!r}")
        return link


@contextmanager
def connect(
    forge: Forge, what: str, *, sleep: Callable[[float], None] = time.sleep
) -> Iterator[ForgeClient]:
    """Connect to a forge. `what` begins the message of an error, such as "no pull request".

    Raises:
        ForgeRefused: the forge refuses, or its answers cannot be read.
        ForgeAway: it does not answer now.
    """
    import httpx

    try:
        # Redirects are not followed: they would send the token to another host.
        with httpx.Client(
            base_url=forge.api, headers=_headers(forge), timeout=TIMEOUT_S, follow_redirects=False
        ) as http:
            yield ForgeClient(http, forge, sleep)
    except ForgeAway as error:
        raise ForgeAway(f"{what} at {forge.api}: {error}") from error
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        raise ForgeRefused(f"{what} at {forge.api}: {_refusal(error)}") from error


def _wait_s(answer: "httpx.Response", method: str, number: int) -> float | None:
    """Return the seconds to wait before the request is sent again; None if it was answered."""
    if answer.is_server_error and method in _REPEATABLE:
        return float(2**number)
    limited = answer.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in answer.headers
    if answer.status_code == 429 or (answer.status_code == 403 and limited):
        if "retry-after" in answer.headers:
            return _seconds(answer.headers["retry-after"])
        reset = answer.headers.get("x-ratelimit-reset") or answer.headers.get("ratelimit-reset")
        return max(0.0, _seconds(reset) - time.time()) if reset else float(2**number)
    return None


def _text(answer: "httpx.Response") -> str | None:
    """Return the body of a streamed answer, however long it is; None of a refusal."""
    if not answer.is_success:
        return None
    kept = HeadAndTail(LOG_BYTES)
    for piece in answer.iter_bytes():
        kept.append(piece)
    return kept.value.decode("utf-8", "replace")


def _seconds(text: str) -> float:
    return float(text) if text.isdigit() else LONGEST_WAIT_S


def _headers(forge: Forge) -> dict[str, str]:
    match forge.kind:
        case "github":
            accept = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
            return {**accept, "Authorization": f"Bearer {forge.token}"}
        case "gitlab":
            return {"PRIVATE-TOKEN": forge.token}
        case "gitea":
            return {"Authorization": f"token {forge.token}"}
        case _:
            assert_never(forge.kind)


def _refusal(error: Exception) -> str:
    """Return the reason of a failure with the forge's own message, never with the token."""
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return f"{error.response.status_code} {_words(error.response)}"
    return f"{type(error).__name__}: {error}"


def _words(answer: "httpx.Response") -> str:
    return " ".join(answer.text.split())[:300]


def listed(value: object) -> Sequence[Shape]:
    """Return a list in an answer, which some forges leave out or give as null."""
    return cast("Sequence[Shape]", value or ())
