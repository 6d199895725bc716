"""Comments on a pull request that ask for something, who may ask, and the replies to them.

A comment counts if it is on a line of the code, if it is the text of a review that asks for
changes, or if it starts with `/harness`. Its author must be a person with write access, which the
forge is asked about. All is read from the forge: nothing comes from the text of a webhook.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never, cast
from urllib.parse import quote

from flows.forge.client import Forge, ForgeClient, Shape, connect, listed
from nodes.outputs.inert import FORGE_CAP, inert_markdown

_MARK = "<!-- harness "
"""Begins the hidden text in everything that a run writes on a forge."""
_COMMAND = re.compile(r"\s*/harness(\s|$)")
_WRITES = {"admin", "maintain", "owner", "write"}
_ASKS_FOR_CHANGES = {"CHANGES_REQUESTED", "REQUEST_CHANGES"}
_GITLAB_DEVELOPER = 30


@dataclass(frozen=True, kw_only=True)
class Comment:
    """One comment on a pull request.

    key       identifies it among all comments of the pull request
    asks      it asks for something, should its author be permitted
    author    how the forge's API names the author; empty if that is no person
    thread    id that a reply in its thread needs; empty if it has no thread
    link      part of its address after the page of the pull request
    """

    key: str
    asks: bool
    author: str
    body: str
    written_at: datetime
    link: str
    thread: str = ""
    path: str = ""
    line: int | None = None
    hunk: str = ""


def next_comment(forge: Forge, number: int, *, known: Collection[str]) -> Comment | None:
    """Return the oldest comment by a person with write access that asks for something.

    Comments in `known`, and those that some run wrote, are left out.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    with connect(forge, "comments cannot be read") as client:
        asking = [
            one
            for one in _comments(forge, client, number)
            if one.asks and one.author and one.key not in known and _MARK not in one.body
        ]
        writers: dict[str, bool] = {}
        for one in sorted(asking, key=lambda one: one.written_at):
            if one.author not in writers:
                writers[one.author] = _may_write(forge, client, one.author)
            if writers[one.author]:
                return one
    return None


def save_reply(
    forge: Forge, number: int, text: str, *, thread: str, about: str, marker: str
) -> None:
    """Reply in the thread of a comment, or below the pull request if it has none, only once.

    `about` is the address of the comment, which a reply without a thread names.
    `marker` must be a secret until it is written, so that a comment with it is ours. If the comment
    was deleted meanwhile, its thread is gone and nothing is written.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    said = inert_markdown(text)[:FORGE_CAP]
    parts = (said, _hidden(marker)) if thread else (f"To {about}:", said, _hidden(marker))
    content = {"body": "\n\n".join(parts)}
    pull = f"{forge.pulls}/{number}"
    with connect(forge, "no reply to a comment") as client:
        # A process may have died after it wrote the reply.
        if any(_hidden(marker) in one.body for one in _comments(forge, client, number)):
            return
        match forge.kind:
            case "github" if thread:
                path = f"{pull}/comments/{thread}/replies"
            case "gitlab":
                path = f"{pull}/discussions/{thread}/notes"
            case "github" | "gitea":
                path = f"{forge.repository}/issues/{number}/comments"
            case _:
                assert_never(forge.kind)
        answer = client.send("POST", path, json=content)
        if not (thread and answer.status_code == 404):
            answer.raise_for_status()


def _hidden(marker: str) -> str:
    return f"<!-- {marker} -->"


def _may_write(forge: Forge, client: ForgeClient, author: str) -> bool:
    match forge.kind:
        case "github" | "gitea":
            place = f"{forge.repository}/collaborators/{quote(author, safe='')}/permission"
            found = client.get_if_known(place)
            return found is not None and found["permission"] in _WRITES
        case "gitlab":
            member = client.get_if_known(f"{forge.repository}/members/all/{author}")
            if member is None or cast("int", member["access_level"]) < _GITLAB_DEVELOPER:
                return False
            return not client.get(f"/users/{author}").get("bot")
        case _:
            assert_never(forge.kind)


def _comments(forge: Forge, client: ForgeClient, number: int) -> Iterator[Comment]:
    pull = f"{forge.pulls}/{number}"
    if forge.kind == "gitlab":
        for thread in client.pages(f"{pull}/discussions"):
            for note in listed(thread["notes"]):
                yield _note(note, str(thread["id"]))
        return
    for one in client.pages(f"{forge.repository}/issues/{number}/comments"):
        asks = _COMMAND.match(str(one["body"])) is not None
        yield _comment(forge, "comment", one, asks=asks, link=f"#issuecomment-{one['id']}")
    reviews = client.pages(f"{pull}/reviews")
    for review in reviews:
        if review.get("submitted_at") is None:
            continue  # a draft of the token's own account
        body = str(review["body"] or "")
        changes = review["state"] in _ASKS_FOR_CHANGES and bool(body.strip())
        asks = changes or _COMMAND.match(body) is not None
        anchor = "pullrequestreview" if forge.kind == "github" else "issuecomment"
        link = f"#{anchor}-{review['id']}"
        yield _comment(forge, "review", review, asks=asks, link=link)
    if forge.kind == "github":
        on_lines = client.pages(f"{pull}/comments")
    else:
        places = [
            f"{pull}/reviews/{one['id']}/comments" for one in reviews if one["comments_count"]
        ]
        on_lines = [one for place in places for one in client.pages(place)]
    by_runs = {one["id"] for one in reviews if _MARK in str(one["body"])}
    for one in on_lines:
        anchor = "discussion_r" if forge.kind == "github" else "issuecomment-"
        asks = not one.get("resolver") and one.get("pull_request_review_id") not in by_runs
        yield _comment(forge, "line", one, asks=asks, link=f"#{anchor}{one['id']}")


def _comment(forge: Forge, kind: str, shown: Shape, *, asks: bool, link: str) -> Comment:
    """Return a comment of GitHub or Gitea."""
    author = shown.get("user")
    name, is_bot = "", False
    if isinstance(author, Mapping):  # null if the account was deleted
        name, is_bot = str(author["login"]), author.get("type", "User") != "User"
    # Gitea counts lines of the file that was changed, or of the one before where a line is gone.
    places = (
        ("line", "original_line") if forge.kind == "github" else ("position", "original_position")
    )
    thread = ""
    if kind == "line" and forge.kind == "github":
        thread = str(shown.get("in_reply_to_id") or shown["id"])
    written_at = shown["submitted_at" if kind == "review" else "created_at"]
    return Comment(
        key=f"{kind} {shown['id']}",
        asks=asks,
        author="" if is_bot else name,
        body=str(shown["body"] or ""),
        written_at=datetime.fromisoformat(str(written_at)),
        link=link,
        thread=thread,
        path=str(shown.get("path") or ""),
        line=_line(shown, *places),
        hunk=str(shown.get("diff_hunk") or ""),
    )


def _note(note: Shape, thread: str) -> Comment:
    """Return a note of GitLab. It can reply to every note in a thread."""
    author, place = note.get("author"), note.get("position")
    on_line = isinstance(place, Mapping)
    body = str(note["body"])
    asks = (on_line and not note.get("resolved")) or _COMMAND.match(body) is not None
    where = cast("Shape", place) if on_line else {}
    return Comment(
        key=f"note {note['id']}",
        asks=asks and not note["system"],
        author=str(author["id"]) if isinstance(author, Mapping) else "",
        body=body,
        written_at=datetime.fromisoformat(str(note["created_at"])),
        link=f"#note_{note['id']}",
        thread=thread,
        path=str(where.get("new_path") or where.get("old_path") or ""),
        line=_line(where, "new_line", "old_line"),
    )


def _line(shown: Shape, *names: str) -> int | None:
    return next(
        (value for name in names if isinstance(value := shown.get(name), int) and value), None
    )
