"""The pull request of a pushed run on GitHub, GitLab or Gitea: opened, made ready, commented on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, assert_never, cast
from urllib.parse import quote, urlsplit

from flows.config.settings import ForgeSettings
from flows.forge.client import Forge, ForgeClient, Shape, connect
from nodes.outputs.inert import FORGE_CAP, inert_markdown

TITLE_CAP = 200
FindForge = Callable[[str], Forge | None]
"""Takes a git remote; returns its forge, or None if no token is configured for its host."""

_READY = (
    "mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) "
    "{ pullRequest { isDraft } } }"
)

_TAKEN = {409, 422}
"""Status codes for "this branch already has a pull request"."""


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """A pull request to open. If the forge has no branch `base`, its default branch is used."""

    branch: str
    base: str | None
    title: str
    body: str
    draft: bool = True


class OpenPull(NamedTuple):
    """A pull request: its page and number, whether it is open, and whether it is a draft.

    `base` is the branch that it is for. `may_conflict` is false if the forge finds no conflict;
    Gitea never says so of a draft. `id` is what GitHub's GraphQL calls it, empty elsewhere.
    """

    page: str
    number: int
    title: str
    draft: bool
    base: str
    may_conflict: bool
    is_open: bool = True
    id: str = ""


def forge_finder(forges: Mapping[str, ForgeSettings], environ: Mapping[str, str]) -> FindForge:
    """Return a `FindForge` for these forges, by host name."""

    def find(remote: str) -> Forge | None:
        found = parse_remote(remote)
        wanted = forges.get(found[0]) if found else None
        token = environ.get(wanted.token_variable) if wanted else None
        if found is None or wanted is None or not token:
            return None
        return Forge(
            kind=wanted.kind,
            api=wanted.api,
            project=found[1],
            token=token,
            draft=wanted.draft,
            answers=wanted.answers,
        )

    return find


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


def open_pull_request(forge: Forge, wanted: PullRequest) -> OpenPull:
    """Open a pull request; return the open one of the branch if there is one.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    with connect(forge, "no pull request") as client:
        base = wanted.base
        if not base or not _has_branch(forge, client, base):
            base = str(client.get(forge.repository)["default_branch"])
        answer = client.send("POST", forge.pulls, json=_new_pull_request(forge, wanted, base))
        if answer.status_code in _TAKEN:
            existing = _find_open(forge, client, wanted.branch)
            if existing is not None:
                return existing
        return _open_pull(forge, answer.raise_for_status().json())


def read_pull_request(forge: Forge, number: int) -> OpenPull:
    """Read a pull request.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    with connect(forge, "the pull request cannot be read") as client:
        return _open_pull(forge, client.get(f"{forge.pulls}/{number}"))


def find_open_pull(forge: Forge, branch: str) -> OpenPull | None:
    """Find the open pull request of a branch.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    with connect(forge, "the pull request cannot be found") as client:
        return _find_open(forge, client, branch)


def mark_ready(forge: Forge, pull: OpenPull) -> None:
    """End the draft of a pull request.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    path = f"{forge.pulls}/{pull.number}"
    with connect(forge, "the pull request stays a draft") as client:
        match forge.kind:
            case "github":  # its REST API cannot
                asked = {"query": _READY, "variables": {"id": pull.id}}
                address = f"{forge.api.removesuffix('/v3')}/graphql"
                answer = client.send("POST", address, json=asked).raise_for_status().json()
                if answer.get("errors"):
                    raise ValueError(str(answer["errors"][0]["message"])[:300])
            case "gitlab":
                renamed = {"title": pull.title.removeprefix("Draft: ")}
                client.send("PUT", path, json=renamed).raise_for_status()
            case "gitea":
                renamed = {"title": pull.title.removeprefix("WIP: ")}
                client.send("PATCH", path, json=renamed).raise_for_status()
            case _:
                assert_never(forge.kind)


def save_comment(forge: Forge, number: int, text: str, *, marker: str, known: int | None) -> int:
    """Write the one comment that holds `marker`, or edit it; return its number.

    `known` is its number, if an earlier call returned it. `marker` must be a secret until it is
    written, so that the oldest comment with it is ours.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    hidden = f"<!-- {marker} -->"
    content = {"body": f"{inert_markdown(text)[:FORGE_CAP]}\n\n{hidden}"}
    on_pull = f"{forge.pulls if forge.kind == 'gitlab' else f'{forge.repository}/issues'}/{number}"
    listing = f"{on_pull}/{'notes' if forge.kind == 'gitlab' else 'comments'}"
    with connect(forge, "no comment") as client:
        if known is None:
            # A process may have died after it wrote the comment.
            mine = [one for one in client.pages(listing) if hidden in str(one["body"])]
            known = min((_number(one["id"]) for one in mine), default=None)
        if known is None:
            made = client.send("POST", listing, json=content).raise_for_status().json()
            return _number(made["id"])
        is_gitlab = forge.kind == "gitlab"
        place = f"{listing}/{known}" if is_gitlab else f"{forge.repository}/issues/comments/{known}"
        client.send("PUT" if is_gitlab else "PATCH", place, json=content).raise_for_status()
        return known


def _has_branch(forge: Forge, client: ForgeClient, name: str) -> bool:
    where = "repository/branches" if forge.kind == "gitlab" else "branches"
    return client.exists(f"{forge.repository}/{where}/{quote(name, safe='')}")


def _find_open(forge: Forge, client: ForgeClient, branch: str) -> OpenPull | None:
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
    mine = (one for one in client.pages(forge.pulls, **params) if _branch_of(forge, one) == branch)
    return next((_open_pull(forge, one) for one in mine), None)


def _branch_of(forge: Forge, found: Shape) -> object:
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


def _open_pull(forge: Forge, shown: Shape) -> OpenPull:
    is_gitlab = forge.kind == "gitlab"
    # GitHub answers null while it has not yet tried to merge.
    conflicts = shown.get("has_conflicts") if is_gitlab else shown.get("mergeable") is False
    base = shown["target_branch"] if is_gitlab else cast("Shape", shown["base"])["ref"]
    return OpenPull(
        page=str(shown["web_url" if is_gitlab else "html_url"]),
        number=_number(shown["iid" if is_gitlab else "number"]),
        title=str(shown["title"]),
        draft=bool(shown.get("draft")),
        base=str(base),
        may_conflict=bool(conflicts),
        is_open=shown["state"] in ("open", "opened"),
        id=str(shown.get("node_id", "")),
    )


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"a number is missing in the answer, which has {value!r}")
    return value
