"""Writes reviews of pull requests, with comments on lines of their diffs."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, assert_never

from contracts.errors import ForgeRefused
from flows.forge.client import Forge, ForgeClient, Shape, connect
from flows.forge.outputs import Begun, Thread, post, write_comment_with
from nodes.outputs.proposals import LineComment, Review
from nodes.outputs.terms import Verdict

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_EVENTS: dict[Verdict, str] = {
    "comment": "COMMENT",
    "request_changes": "REQUEST_CHANGES",
    "approve": "APPROVE",
}

Lines = Mapping[int, int | None]
"""Lines of the new version of a file in a diff, with their numbers before; None: it is new."""


class Written(NamedTuple):
    """The page of a review, and why some of its comments are not in it; empty if all are."""

    page: str
    left_out: str = ""


class _Diff(NamedTuple):
    head: str
    files: Mapping[str, Lines]
    refs: Shape
    """GitLab's names for the three commits between which a diff lies."""


def write_review(
    forge: Forge, number: int, review: Review, text: str, begun: Begun, *, reviewed: str
) -> Written:
    """Write a review of the commit `reviewed`, with those of its comments that are on the diff.

    If the pull request has moved on, a verdict is refused and comments on lines are left out.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    pull = f"{forge.pulls}/{number}"
    with connect(forge, "no review") as client:
        diff = _read_diff(forge, client, pull)
        has_moved = diff.head != reviewed
        if has_moved and review.verdict != "comment":
            raise ForgeRefused(
                f"the pull request has moved on from {reviewed[:12]}, the commit that was reviewed"
            )
        files = {} if has_moved else diff.files
        good = [one for one in review.lines if one.line in files.get(one.path, {})]
        out = [f"{one.path}:{one.line}" for one in review.lines if one not in good]
        why = "the pull request has moved on" if has_moved else "not in the diff"
        left_out = f"left out, {why}: {', '.join(out)}" if out else ""
        if forge.kind == "gitlab":
            return Written(
                _as_notes(forge, client, number, review, good, diff, text, begun), left_out
            )
        return Written(_as_review(forge, client, pull, review, good, text, begun, diff), left_out)


def _as_review(
    forge: Forge,
    client: ForgeClient,
    pull: str,
    review: Review,
    lines: Iterable[LineComment],
    text: str,
    begun: Begun,
    diff: _Diff,
) -> str:
    listing = f"{pull}/reviews"
    made: Shape | None = None
    if begun.again_since is not None:
        made = begun.found_in(client.pages(listing), "body")
    if made is None:
        event = _EVENTS[review.verdict]
        is_gitea = forge.kind == "gitea"
        place = "new_position" if is_gitea else "line"
        side = {} if is_gitea else {"side": "RIGHT"}
        content = {
            "commit_id": diff.head,
            "body": begun.signed(text),
            "event": "APPROVED" if is_gitea and event == "APPROVE" else event,
            "comments": [
                {
                    "path": one.path,
                    place: one.line,
                    "body": begun.part(count).signed(one.body),
                    **side,
                }
                for count, one in enumerate(lines, 1)
            ],
        }
        made = post(client, listing, content)
    return str(made["html_url"])


def _as_notes(
    forge: Forge,
    client: ForgeClient,
    number: int,
    review: Review,
    lines: Iterable[LineComment],
    diff: _Diff,
    text: str,
    begun: Begun,
) -> str:
    """GitLab has no reviews: each comment is a discussion, and the text a note after them."""
    pull = f"{forge.pulls}/{number}"
    known = client.pages(f"{pull}/notes") if begun.again_since is not None else []
    for count, one in enumerate(lines, 1):
        mark = begun.part(count)
        if mark.found_in(known, "body") is None:
            before = diff.files[one.path][one.line]
            old = {} if before is None else {"old_line": before}
            position = {
                **{name: diff.refs[name] for name in ("base_sha", "start_sha", "head_sha")},
                **{"position_type": "text", "new_path": one.path, "old_path": one.path},
                **{"new_line": one.line, **old},
            }
            content = {"body": mark.signed(one.body), "position": position}
            post(client, f"{pull}/discussions", content)
    page = write_comment_with(forge, client, Thread("pull_request", number), text, begun)
    if review.verdict == "approve":
        client.send("POST", f"{pull}/approve", json={"sha": diff.head}).raise_for_status()
    return page


def _read_diff(forge: Forge, client: ForgeClient, pull: str) -> _Diff:
    shown = client.get(pull)
    match forge.kind:
        case "github":
            files = {
                str(one["filename"]): _lines(str(one.get("patch") or ""))
                for one in client.pages(f"{pull}/files")
            }
            return _Diff(shown["head"]["sha"], files, {})
        case "gitea":
            return _Diff(shown["head"]["sha"], _files(client.text(f"{pull}.diff") or ""), {})
        case "gitlab":
            refs = shown["diff_refs"]
            files = {
                str(one["new_path"]): _lines(str(one["diff"]))
                for one in client.pages(f"{pull}/diffs")
                if one["old_path"] == one["new_path"]
            }
            return _Diff(refs["head_sha"], files, refs)
        case _:
            assert_never(forge.kind)


def _files(diff: str) -> dict[str, Lines]:
    """Return the files of a whole diff. Names that git quotes are left out."""
    found: dict[str, Lines] = {}
    for part in re.split(r"^diff --git ", diff, flags=re.MULTILINE)[1:]:
        name = re.search(r"^\+\+\+ b/([^\t\n]+)", part, re.MULTILINE)
        if name:
            found[name[1]] = _lines(part)
    return found


def _lines(patch: str) -> Lines:
    found: dict[int, int | None] = {}
    old = new = 0
    for line in patch.split("\n"):
        hunk = _HUNK.match(line)
        if hunk:
            old, new = int(hunk[1]), int(hunk[2])
        elif new and line.startswith("+"):
            found[new] = None
            new += 1
        elif new and line.startswith(" "):
            found[new] = old
            old, new = old + 1, new + 1
        elif new and line.startswith("-"):
            old += 1
    return found
