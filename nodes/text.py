"""Text from a sandbox made fit for people: inert, bounded, without secrets. Pure."""

import re
from collections.abc import Callable, Mapping
from unicodedata import category

MAX_OUTPUT_CHARS = 64 * 1024
"""Characters of output that one node result keeps."""

MIN_SECRET_LENGTH = 8
"""Shorter values are not redacted: they would blank out half of every log."""

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links, device strings
    r"|\x1b."
)
_TICKS = re.compile(r"`{3,}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_VARIANTS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
"""Marks that choose a shape for the sign before them: a text can be hidden in a row of them."""

_SEEN_AS_NOTHING = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0").union(
    chr(code) for first, last in _VARIANTS for code in range(first, last + 1)
)
"""Letters and marks that leave a gap, or nothing."""

_IN_COLOUR_OR_NOT = "\ufe0e\ufe0f"
"""Follow a sign such as the one of warning wherever it is written in the usual way."""

Redact = Callable[[str], str]


def strip_control_characters(text: str) -> str:
    """The text without terminal escapes, control characters, direction overrides and half letters.

    A model may write half a letter, and no file of UTF-8 takes it.
    """
    return _CONTROL.sub("", _ESCAPE.sub("", text.replace("\r\n", "\n")))


def escape_invisible(text: str) -> str:
    """The text with all that a reader would not see spelled out, as in `\\x1b`; nothing is lost.

    For whoever decides about it: escapes, control characters, direction overrides, blanks of no
    width and unusual spaces. Lines and tabs stay, and the one mark that has a sign in colour.
    """
    if text.isprintable() and _SEEN_AS_NOTHING.isdisjoint(text):
        return text
    pairs = zip(f" {text}", text, strict=False)
    return "".join(char if _is_seen(char, before) else _spelled(char) for before, char in pairs)


def _is_seen(char: str, before: str) -> bool:
    if char in _IN_COLOUR_OR_NOT:
        return category(before).startswith("S")
    return (char.isprintable() and char not in _SEEN_AS_NOTHING) or char in "\n\t"


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode()


def truncate_middle(text: str, limit: int = MAX_OUTPUT_CHARS) -> str:
    """At most about `limit` characters: the first quarter and the rest from the end."""
    if len(text) <= limit:
        return text
    head, tail = limit // 4, limit - limit // 4
    dropped = len(text) - head - tail
    return f"{text[:head]}\n[… {dropped} characters left out …]\n{text[-tail:]}"


def code_block(text: str, language: str = "") -> str:
    """The text between fences that are longer than any inside it, so that it cannot close them."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}"


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables whose names sound secret, the longest first."""
    values = {
        value
        for name, value in environ.items()
        if len(value) >= MIN_SECRET_LENGTH and _SECRET_NAME.search(name)
    }
    return tuple(sorted(values, key=len, reverse=True))


def make_redactor(environ: Mapping[str, str]) -> Redact:
    """A function that blanks out the values of variables whose names sound secret."""
    secrets = secret_values(environ)
    if not secrets:
        return lambda text: text
    pattern = re.compile("|".join(re.escape(secret) for secret in secrets))
    return lambda text: pattern.sub("[redacted]", text)
