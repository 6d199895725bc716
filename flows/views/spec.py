"""ViewSpec: a page as JSON. The browser, the terminal and Markdown render the same document.

All text is plain: no renderer interprets it, and characters that nobody would see are spelled out.
"""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from nodes.text import escape_invisible

Text = Annotated[str, AfterValidator(escape_invisible)]
Tone = Literal["plain", "good", "bad", "waiting"]

_HREF = r"^(/([A-Za-z0-9._~#?=&%-][A-Za-z0-9/._~#?=&%-]*)?|https?://[A-Za-z0-9\[][!-~]*)$"
"""A path of the same server, or an address of the web; never another scheme."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Link(_Part):
    """A link; the server makes links only of ids and of addresses from the settings."""

    text: Text
    href: Annotated[str, Field(pattern=_HREF)]


class Badge(_Part):
    """One word with a tone."""

    text: Text
    tone: Tone = "plain"


Cell = Text | Link | Badge


class Paragraph(_Part):
    """A paragraph."""

    kind: Literal["paragraph"] = "paragraph"
    text: Text


class Code(_Part):
    """Text whose lines and spaces are kept."""

    kind: Literal["code"] = "code"
    title: Text
    text: Text


class Facts(_Part):
    """Names with values."""

    kind: Literal["facts"] = "facts"
    rows: tuple[tuple[Text, Cell], ...]


class Table(_Part):
    """Rows of cells below column titles."""

    kind: Literal["table"] = "table"
    title: Text
    head: tuple[Text, ...]
    rows: tuple[tuple[Cell, ...], ...]


class Cause(_Part):
    """The number of an earlier node that a node depends on."""

    number: int
    tainted: bool


class GraphNode(_Part):
    """A node of the graph; a tainted one has handled content from an untrusted origin."""

    number: int
    text: Text
    tainted: bool
    denied: bool = False
    causes: tuple[Cause, ...] = ()


class Graph(_Part):
    """The data flow. The nodes are numbered from 1, causes before their effects."""

    kind: Literal["graph"] = "graph"
    title: Text
    nodes: tuple[GraphNode, ...]


Part = Annotated[Paragraph | Code | Facts | Table | Graph, Field(discriminator="kind")]


class ViewSpec(_Part):
    """A page: its title and its parts. `version` changes when a renderer must change."""

    version: Literal[1] = 1
    title: Text
    parts: tuple[Part, ...]


def view_schema() -> dict[str, object]:
    """Return the JSON Schema of a view."""
    made = ViewSpec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def link(text: str, href: str | None) -> Cell:
    """Return a link, or only its text if this is no address that a view may hold."""
    return Link(text=text, href=href) if href and re.fullmatch(_HREF, href) else text


def cell_text(cell: Cell) -> str:
    """Return what a cell says, for renderers that show neither links nor colours."""
    return cell if isinstance(cell, str) else cell.text
