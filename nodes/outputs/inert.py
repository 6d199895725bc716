"""Markdown of an agent, written anew so that it acts on nothing when a forge shows it.

The text is parsed, and only known elements are written again, with everything else escaped. Names,
numbers of issues and addresses become code: no forge mentions, closes, links or loads from there.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from nodes.text import QUOTE_MARK, code_block, visible_text

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

FORGE_CAP = 60_000
"""Characters of a text that every forge takes; GitHub takes 65,536."""

_LIVE = re.compile(
    r"[@\uff20\ufe6b]|://|www\.|[#\uff03\ufe5f!&]\d|\bGH-\d|^[0-9a-f]{7,40}$",
    re.IGNORECASE,
)
"""In a word: a mention or mail address, an address, an issue, a pull request, a commit."""
_DEEPEST = 30
"""Levels of emphasis in each other; a text with more is shown as it is, as code."""
_EDGES = "()[]{}<>\"'.,;:?*_~"
"""Punctuation around a word that does not belong to it."""
_CLOSING = re.compile(
    r"\b(clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?)"
    r"(?=:?\s+(?:issues?\s+)?\S*(?:[#\uff03\ufe5f!]\d|GH-\d|[A-Z]\w*-\d|/\d))",
    re.IGNORECASE,
)
"""A word that closes the issue named after it. GitLab looks for it in code, too."""
_GAP = "\u200b"
_BLOCK_START = re.compile(r"^(?:(\d+)(?=[.)])|(?=[-+=:/]))", re.MULTILINE)
_ESCAPED = str.maketrans(
    {char: f"\\{char}" for char in "\\`*_[]{}~|$#"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
)
_POWER = re.compile(
    r"(?<=[@\uff20\ufe6b#\uff03\ufe5f!&])(?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)|(?<=\bGH)(?=-\d)"
    r"|(?<=\])(?=\()|(?<=\{)(?=\{)",
    re.IGNORECASE,
)
"""Places in plain text where a gap takes the power of what stands there: mentions, issues,
addresses, links, and the placeholders of a notification block."""
_BRACKETS = str.maketrans("<>", "\u2039\u203a")
_LANGUAGES = frozenset(
    (
        *("bash", "c", "cpp", "css", "diff", "go", "html", "ini", "java", "javascript", "json"),
        *("kotlin", "make", "patch", "php", "python", "ruby", "rust", "sh", "shell", "sql"),
        *("text", "toml", "typescript", "xml", "yaml"),
    )
)
"""Languages of code blocks that are kept. Forges draw pictures of others, such as `plantuml`."""


def inert_markdown(text: str) -> str:
    """Return Markdown that looks like the text and has no power.

    Nobody is mentioned, nothing is closed, linked, loaded or commanded, and no HTML is left.
    """
    from markdown_it import MarkdownIt  # takes as long to import as the rest of this room
    from markdown_it.tree import SyntaxTreeNode

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    plain = visible_text(text)
    tokens = parser.parse(plain)
    if any(inner.level > _DEEPEST for token in tokens for inner in token.children or ()):
        return _code(plain)
    return _blocks(SyntaxTreeNode(tokens).children)


def inert_line(text: str) -> str:
    """Return plain text on one line that mentions, closes and links nothing; for a title."""
    return " ".join(inert_text(text).split())


def inert_text(text: str) -> str:
    """Return plain text that mentions, closes and links nothing, wherever it is shown.

    A chat may take it for its own markup, so its brackets are exchanged for others.
    """
    plain = visible_text(text).translate(_BRACKETS)
    return _POWER.sub(_GAP, _CLOSING.sub(rf"\1{_GAP}", plain))


def inert_quotes(text: str) -> str:
    """Return text for a commit message: its lines that `quote_untrusted` has marked close and
    mention nothing. The user's own lines stay as they are."""
    lines = text.split("\n")
    return "\n".join(inert_text(line) if line.startswith(QUOTE_MARK) else line for line in lines)


def _blocks(nodes: "Iterable[SyntaxTreeNode]") -> str:
    return "\n\n".join(filter(None, map(_block, nodes)))


def _block(node: "SyntaxTreeNode") -> str:
    match node.type:
        case "heading":
            written = f"{'#' * int(node.tag[1:])} {_one_line(node)}"
        case "blockquote":
            written = _prefixed(_blocks(node.children), "> ", "> ")
        case "bullet_list" | "ordered_list":
            written = _list(node)
        case "fence" | "code_block":
            written = _code(node.content, node.info.strip().lower())
        case "hr":
            written = "* * *"
        case "table":
            written = _table([row for part in node.children for row in part.children])
        case _:
            written = _BLOCK_START.sub(r"\1\\", _inline(_leaves(node)))
    return written


def _code(text: str, language: str = "") -> str:
    content = _CLOSING.sub(rf"\1{_GAP}", text)
    block = code_block(content, language if language in _LANGUAGES else "")
    # The indentation is not shown, and keeps bots from lines that begin with a slash.
    return _prefixed(block, " ", " ")


def _list(node: "SyntaxTreeNode") -> str:
    first = int(node.attrs.get("start", 1))
    is_ordered = node.type == "ordered_list"
    marks = [f"{first + n}. " if is_ordered else "- " for n in range(len(node.children))]
    return "\n".join(
        _prefixed(_blocks(item.children), mark, " " * len(mark))
        for mark, item in zip(marks, node.children, strict=True)
    )


def _prefixed(block: str, first: str, others: str) -> str:
    head, *rest = block.split("\n")
    return "\n".join([f"{first}{head}".rstrip(), *(f"{others}{line}".rstrip() for line in rest)])


def _table(rows: "Sequence[SyntaxTreeNode]") -> str:
    lines = [
        f"| {' | '.join(_one_line(cell, in_cell=True) for cell in row.children)} |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0].children), *lines[1:]])


def _one_line(node: "SyntaxTreeNode", *, in_cell: bool = False) -> str:
    return " ".join(_inline(_leaves(node), in_cell=in_cell).replace("\\\n", " ").split("\n"))


def _leaves(block: "SyntaxTreeNode") -> "Sequence[SyntaxTreeNode]":
    return [child for inline in block.children for child in inline.children]


def _inline(nodes: "Iterable[SyntaxTreeNode]", *, in_cell: bool = False) -> str:
    parts: list[str] = []
    for kind, group in groupby(nodes, lambda node: node.type):
        if kind == "text":
            parts.append(_text("".join(node.content for node in group), in_cell=in_cell))
        else:
            parts += [_span(node, in_cell=in_cell) for node in group]
    written = ""
    for part in filter(None, parts):
        # Backticks of two spans would count as one longer fence.
        gap = " " if written.endswith("`") and part.startswith("`") else ""
        written += gap + part
    return written


def _span(node: "SyntaxTreeNode", *, in_cell: bool) -> str:
    inner = _inline(node.children, in_cell=in_cell)
    match node.type:
        case "softbreak":
            written = "\n"
        case "hardbreak":
            written = "\\\n"
        case "strong" | "em" | "s":
            mark = {"strong": "**", "em": "*", "s": "~~"}[node.type]
            written = f"{mark}{inner}{mark}"
        case "code_inline":
            written = _code_span(node.content, in_cell=in_cell)
        case "link" | "image":
            address = str(node.attrs.get("href" if node.type == "link" else "src", ""))
            shown = f"{inner} ({_code_span(address, in_cell=in_cell)})"
            is_same = address == "".join(child.content for child in node.children)
            written = shown if address and not is_same else inner
        case _:
            written = _text(node.content, in_cell=in_cell)
    return written


def _text(text: str, *, in_cell: bool) -> str:
    words = re.split(r"(\s+)", _CLOSING.sub(rf"\1{_GAP}", text))
    return "".join(_word(word, in_cell=in_cell) for word in words)


def _word(word: str, *, in_cell: bool) -> str:
    core = word.strip(_EDGES)
    if not _LIVE.search(core):
        return word.translate(_ESCAPED)
    before, _, after = word.partition(core)
    span = _code_span(core, in_cell=in_cell)
    return f"{before.translate(_ESCAPED)}{span}{after.translate(_ESCAPED)}"


def _code_span(text: str, *, in_cell: bool) -> str:
    flat = _CLOSING.sub(rf"\1{_GAP}", " ".join(text.split("\n")))
    if not flat.strip():
        return ""
    longest = max((len(run) for run in re.findall("`+", flat)), default=0)
    fence, edge = "`" * (longest + 1), " " if "`" in (flat[0], flat[-1]) else ""
    shown = flat.replace("|", "\\|") if in_cell else flat
    return f"{fence}{edge}{shown}{edge}{fence}"
