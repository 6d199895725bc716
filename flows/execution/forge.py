"""Opens the pull request of a pushed run on GitHub, GitLab or Gitea through their REST APIs."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, assert_never
from urllib.parse import quote, urlsplit

from contracts.errors import ForgeRefused
from contracts.run import RunReport
from flows.config.settings import ForgeSettings
from flows.runs.report import report_markdown
from nodes.text import strip_control_characters

if TYPE_CHECKING:
    import httpx

ForgeKind = Literal["github", "gitlab", "gitea"]
TIMEOUT_S = 30.0
TITLE_CAP = 200

OpenPullRequest = Callable[[str, str | None, RunReport], str | None]
"""Takes the remote, the base branch and the report; returns the page of the pull request, or None
if no token is configured for the remote's host."""

_POWER = re.compile(r"(?<=[@#])(?=\w)|(?<=\w:)(?=//)")
_QUICK_ACTION = re.compile(r"^(\s*)/", re.MULTILINE)
_GAP = "\u200b"

_TAKEN = {409, 422}
"""Status codes for "this branch already has a pull request"."""


@dataclass(frozen=True, kw_only=True)
class Forge:
    """API address, project and token for one repository. `api` ends without a slash."""

    kind: ForgeKind
    api: str
    project: str
    token: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """A pull request to open. If the forge has no branch `base`, its default branch is used."""

    branch: str
    base: str | None
    title: str
    body: str
    draft: bool = True


def pull_request_opener(
    forges: Mapping[str, ForgeSettings], environ: Mapping[str, str]
) -> OpenPullRequest:
    """Return an `OpenPullRequest` for these forges, by host name."""

    def propose(remote: str, base: str | None, report: RunReport) -> str | None:
        found = parse_remote(remote)
        wanted = forges.get(found[0]) if found else None
        token = environ.get(wanted.token_variable) if wanted else None
        if found is None or wanted is None or not token or report.branch is None:
            return None
        forge = Forge(kind=wanted.kind, api=wanted.api, project=found[1], token=token)
        pull = PullRequest(
            branch=report.branch,
            base=base,
            title=title(report),
            body=body(report),
            draft=wanted.draft,
        )
        return open_pull_request(forge, pull)

    return propose


def title(report: RunReport) -> str:
    """Return one line: the blueprint and the intent."""
    whole = f"{report.blueprint}: {report.intent or report.run_id}"
    return inert_markdown(" ".join(strip_control_characters(whole).split()))


def body(report: RunReport) -> str:
    """Return the report without its diff, as inert Markdown."""
    return inert_markdown(report_markdown(report, diff=""))


def inert_markdown(text: str) -> str:
    """Return text that looks the same but mentions nobody, links nothing and triggers no command.

    Forges act on `@name`, `fixes #12`, addresses of issues and, on GitLab, lines that start with a
    slash. Zero-width spaces stop that.
    """
    return _QUICK_ACTION.sub(rf"\1{_GAP}/", _POWER.sub(_GAP, text))


def parse_remote(remote: str) -> tuple[str, str] | None:
    """Return host and project of a git remote, such as `("github.com", "team/app")`; None for a
    path."""
    if "://" not in remote:
        place, colon, path = remote.partition(":")
        if not colon or "/" in place:
            return None
        host = place.rpartition("@")[2]
    else:
        parts = urlsplit(remote)
        if parts.scheme not in ("http", "https", "ssh", "git"):
            return None
        host, path = parts.hostname or "", parts.path
        if parts.port and parts.scheme in ("http", "https"):
            host = f"{host}:{parts.port}"
    project = path.strip("/").removesuffix(".git")
    return (host.lower(), project) if host and "/" in project else None


def open_pull_request(forge: Forge, wanted: PullRequest) -> str:
    """Open a pull request and return its page; return the page of the open one if there is one.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    import httpx

    try:
        # Redirects are not followed: they would send the token to another host.
        with httpx.Client(
            base_url=forge.api, headers=_headers(forge), timeout=TIMEOUT_S, follow_redirects=False
        ) as client:
            return _open(forge, client, wanted)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        raise ForgeRefused(f"no pull request at {forge.api}: {_refusal(error)}") from error


def _open(forge: Forge, client: "httpx.Client", wanted: PullRequest) -> str:
    base = wanted.base if wanted.base and _has_branch(forge, client, wanted.base) else None
    if base is None:
        base = str(client.get(_project_url(forge)).raise_for_status().json()["default_branch"])
    answer = client.post(
        f"{_project_url(forge)}/{_collection(forge)}", json=_new_pull_request(forge, wanted, base)
    )
    if answer.status_code in _TAKEN:
        existing = _find_open(forge, client, wanted.branch)
        if existing is not None:
            return existing
    return _page_of(forge, answer.raise_for_status().json())


def _has_branch(forge: Forge, client: "httpx.Client", name: str) -> bool:
    where = "repository/branches" if forge.kind == "gitlab" else "branches"
    return client.get(f"{_project_url(forge)}/{where}/{quote(name, safe='')}").is_success


def _find_open(forge: Forge, client: "httpx.Client", branch: str) -> str | None:
    """Find the open pull request of this branch. Gitea's API cannot filter by branch."""
    owner = forge.project.partition("/")[0]
    match forge.kind:
        case "github":
            params = {"state": "open", "head": f"{owner}:{branch}"}
        case "gitlab":
            params = {"state": "opened", "source_branch": branch}
        case "gitea":
            params = {"state": "open", "sort": "recentupdate"}
        case _:
            assert_never(forge.kind)
    answer = client.get(f"{_project_url(forge)}/{_collection(forge)}", params=params)
    found: Sequence[Mapping[str, object]] = answer.raise_for_status().json()
    mine = (one for one in found if _branch_of(forge, one) == branch)
    return next((_page_of(forge, one) for one in mine), None)


def _branch_of(forge: Forge, found: Mapping[str, object]) -> object:
    if forge.kind == "gitlab":
        return found["source_branch"]
    head = found["head"]
    return head["ref"] if isinstance(head, Mapping) else None


def _new_pull_request(forge: Forge, wanted: PullRequest, base: str) -> dict[str, object]:
    title = wanted.title[:TITLE_CAP]
    match forge.kind:
        case "github":
            params = {"head": wanted.branch, "base": base, "title": title, "body": wanted.body}
            return {**params, "draft": wanted.draft}
        case "gitlab":
            return {
                "source_branch": wanted.branch,
                "target_branch": base,
                "title": f"Draft: {title}" if wanted.draft else title,
                "description": wanted.body,
            }
        case "gitea":
            title = f"WIP: {title}" if wanted.draft else title
            return {"head": wanted.branch, "base": base, "title": title, "body": wanted.body}
        case _:
            assert_never(forge.kind)


def _project_url(forge: Forge) -> str:
    if forge.kind == "gitlab":
        return f"/projects/{quote(forge.project, safe='')}"
    return f"/repos/{quote(forge.project)}"


def _collection(forge: Forge) -> str:
    return "merge_requests" if forge.kind == "gitlab" else "pulls"


def _page_of(forge: Forge, made: Mapping[str, object]) -> str:
    return str(made["web_url" if forge.kind == "gitlab" else "html_url"])


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
        words = " ".join(error.response.text.split())[:300]
        return f"{error.response.status_code} {words}"
    return f"{type(error).__name__}: {error}"
