"""Writes on a forge what agents proposed: comments, labels, issues. Nothing is written twice."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple, assert_never

from flows.forge.client import Forge, ForgeClient, Shape, connect
from nodes.outputs.terms import Target

_SKEW_S = 600.0
"""Seconds by which the clock of a forge may differ from ours."""


class Thread(NamedTuple):
    """An issue or pull request."""

    kind: Target
    number: int


class Begun(NamedTuple):
    """The hidden mark of one output.

    `again_since` is the time at which an earlier process began it; the output is searched for
    before it is written again.
    """

    marker: str
    again_since: float | None = None

    def signed(self, text: str) -> str:
        """Return the text with the mark, which no reader sees."""
        return f"{text}\n\n<!-- {self.marker} -->"

    def part(self, number: int) -> "Begun":
        """Return the mark of a part of the output."""
        return self._replace(marker=f"{self.marker} {number}")

    def found_in(self, written: Iterable[Shape], field: str) -> Shape | None:
        """Return the oldest of these that has the mark."""
        return next((one for one in written if f"<!-- {self.marker} -->" in str(one[field])), None)


def write_comment(forge: Forge, thread: Thread, body: str, begun: Begun) -> str:
    """Write a comment and return its page.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    with connect(forge, "no comment") as client:
        return write_comment_with(forge, client, thread, body, begun)


def write_comment_with(
    forge: Forge, client: ForgeClient, thread: Thread, body: str, begun: Begun
) -> str:
    """Write a comment over an open connection and return its page."""
    place = _place(forge, thread)
    listing = f"{place}/{'notes' if forge.kind == 'gitlab' else 'comments'}"
    made: Shape | None = None
    if begun.again_since is not None:
        newest = _since(forge, begun.again_since)
        made = begun.found_in(client.pages(listing, **newest), "body")
    made = made or post(client, listing, {"body": begun.signed(body)})
    if forge.kind == "gitlab":  # its notes have no address of their own
        return f"{client.get(place)['web_url']}#note_{made['id']}"
    return str(made["html_url"])


def add_labels(forge: Forge, thread: Thread, names: tuple[str, ...]) -> str:
    """Add labels to what has others already, and return its page.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    with connect(forge, "no labels") as client:
        return _add_labels(forge, client, _place(forge, thread), names)


def open_issue(forge: Forge, title: str, body: str, labels: tuple[str, ...], begun: Begun) -> str:
    """Open an issue with these labels, and return its page.

    Raises:
        ForgeRefused: the forge does not answer or refuses.
    """
    listing, field = f"{forge.repository}/issues", _text_field(forge)
    with connect(forge, "no issue") as client:
        made: Shape | None = None
        if begun.again_since is not None:
            newest = _since(forge, begun.again_since)
            made = begun.found_in(client.pages(listing, state="all", **newest), field)
        made = made or post(client, listing, {"title": title, field: begun.signed(body)})
        if labels:
            number = made["iid" if forge.kind == "gitlab" else "number"]
            _add_labels(forge, client, f"{listing}/{number}", labels)
        return str(made["web_url" if forge.kind == "gitlab" else "html_url"])


def _add_labels(forge: Forge, client: ForgeClient, place: str, names: tuple[str, ...]) -> str:
    if forge.kind == "gitlab":
        answer = client.send("PUT", place, json={"add_labels": ",".join(names)})
        return str(answer.raise_for_status().json()["web_url"])
    client.send("POST", f"{place}/labels", json={"labels": list(names)}).raise_for_status()
    return str(client.get(place)["html_url"])


def _place(forge: Forge, thread: Thread) -> str:
    """Return the path of the issue; GitHub and Gitea comment on pull requests as on issues."""
    if forge.kind == "gitlab" and thread.kind == "pull_request":
        return f"{forge.pulls}/{thread.number}"
    return f"{forge.repository}/issues/{thread.number}"


def _text_field(forge: Forge) -> str:
    return "description" if forge.kind == "gitlab" else "body"


def _since(forge: Forge, moment: float) -> dict[str, str]:
    """Return the parameters that list what was written since this moment."""
    match forge.kind:
        case "github" | "gitea":
            since = datetime.fromtimestamp(moment - _SKEW_S, UTC)
            return {"since": since.isoformat(timespec="seconds").replace("+00:00", "Z")}
        case "gitlab":
            return {"order_by": "created_at", "sort": "desc"}
        case _:
            assert_never(forge.kind)


def post(client: ForgeClient, path: str, content: Shape) -> Shape:
    """Post JSON and return the answer's."""
    made: Shape = client.send("POST", path, json=content).raise_for_status().json()
    return made
