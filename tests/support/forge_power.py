"""What a forge would act on in a text: mentions, links, pictures, commands, words that close."""

import re
from html.parser import HTMLParser

from markdown_it import MarkdownIt

HARMLESS = {
    *("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code"),
    *("em", "strong", "s", "hr", "br", "table", "thead", "tbody", "tr", "th", "td"),
}
LIVE = re.compile(r"@\w|[#!]\d|\bgh-\d|://|www\.|＠|﹫|＃", re.IGNORECASE)  # noqa: RUF001 - look-alikes
CLOSES = re.compile(
    r"\b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?):?\s+"
    r"(?:issues?\s+)?[\w./:-]*?(?:#\d|GH-\d|/\d|[A-Z]-\d)",
    re.IGNORECASE,
)
"""What GitHub, GitLab or Gitea close an issue for, and more."""


class Shown(HTMLParser):
    """The tags of a page, and its text outside of code."""

    def __init__(self, markdown: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.text = ""
        self._in_code = 0
        renderer = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
        self.feed(renderer.render(markdown))
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        self._in_code += tag == "code"

    def handle_endtag(self, tag: str) -> None:
        self._in_code -= tag == "code"

    def handle_data(self, data: str) -> None:
        self.text += " … " if self._in_code else data


def power_of(markdown: str) -> list[str]:
    """Return everything in the text on which a forge would act."""
    shown = Shown(markdown)
    found = sorted(shown.tags - HARMLESS)
    found += [match[0] for match in LIVE.finditer(shown.text)]
    found += [match[0] for match in CLOSES.finditer(markdown)]
    found += [line for line in markdown.splitlines() if re.match(r"/\w", line)]
    found += [char for char in markdown.replace("\u200b", "") if char in "\u200d\u202e\u2066\u00ad"]
    return found
