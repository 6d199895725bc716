"""What a prompt names: addresses, names, channels, files, amounts. They are the user's own word.

A steering value that stands in the prompt may also come from untrusted text: whoever wrote that
text chose nothing that the user had not said. Ordinary words of a sentence name nothing, so that
untrusted text cannot take any word of the prompt for a target. Nor does a sentence that says what
not to do.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation

from contracts.json import Json

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_NEGATION = re.compile(
    r"\b(?:"
    r"not|never|no|nobody|nothing|none|without|except|instead of|rather than|avoid|\w+n['’]t"  # noqa: RUF001 - people type this apostrophe
    r"|nicht|nichts|nie|niemals|kein\w*|ohne|außer|statt"
    r"|ne|pas|jamais|aucun\w*|sans|sauf"
    r"|nunca|jamás|sin|excepto|salvo|nada|ningun\w*|ningún"
    r"|non|mai|senza|tranne|não|nem|sem|exceto|niet|geen|nooit|zonder|behalve"
    r"|inte|aldrig|ikke|nie wolno|bez|не|никогда|нет|без|кроме"
    r")\b|[不勿别別沒没]|ない|しない|ません|않|마세요|말고",
    re.IGNORECASE,
)
"""Words by which a sentence may say what not to do, in the languages that most prompts are in."""

_QUOTED = re.compile(r"\"([^\"\n]+)\"|'([^'\n]+)'(?!\w)|`([^`\n]+)`|“([^”\n]+)”|«([^»\n]+)»")
_CALLED = (
    re.compile(
        r"\b(?:channel|folder|directory|file|branch|user|account|group|list|repository|label)s?"
        r"\s+(?:named\s+|called\s+)?([\w./-]+)",
        re.IGNORECASE,
    ),
    re.compile(r"([\w./-]+)\s+(?:channel|folder|branch|group|repository)\b", re.IGNORECASE),
)
_CAPITALISED = re.compile(r"(?:\b[^\W\d_a-z][\w'-]*)(?:\s+[^\W\d_a-z][\w'-]*)*")
_MARK = re.compile(r"[\d@#/\\_]|\w[.:]\w")
_EDGE = ".,;:!?()[]{}<>\"'“”‘’«»`*…"  # noqa: RUF001 - quotation marks as people type them
_STOP_WORDS = frozenset(
    (
        *("a", "an", "the", "this", "that", "these", "those", "my", "your", "our", "his", "her"),
        *("its", "their", "in", "on", "of", "to", "for", "from", "with", "and", "or", "as", "at"),
        *("by", "is", "it", "same", "each", "every", "all", "any", "some", "which", "new", "other"),
    )
)
_MONEY = re.compile(
    r"^(?:[$€£¥]|usd|eur|gbp|chf)?\s*(-?\d[\d,]*(?:\.\d+)?)\s*(?:[$€£¥%]|usd|eur|gbp|chf)?$"
)


def named_in(prompt: str, contacts: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Return what the prompt names, and the addresses of each contact that it names.

    `contacts` maps names to addresses. A first name is enough if only one contact has it.
    """
    found: set[str] = set()
    for sentence in _SENTENCE_END.split(prompt):
        if not _NEGATION.search(sentence):
            found.update(_normalized(one) for one in _names(sentence))
    for name, addresses in contacts.items():
        if _contact_names(name, contacts) & found:
            found.update(_normalized(address) for address in addresses)
    return frozenset(found - {""})


def is_named(value: Json, named: frozenset[str]) -> bool:
    """Return True if the value, or each item of a list, is named; an empty list is not."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(is_named(one, named) for one in value)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return False
    return _normalized(str(value)) in named


def _names(sentence: str) -> Iterator[str]:
    for match in _QUOTED.finditer(sentence):
        yield next(filter(None, match.groups()))
    for pattern in _CALLED:
        yield from pattern.findall(sentence)
    for word in sentence.split():
        bare = _without_s(word.strip(_EDGE))
        if _MARK.search(bare):
            yield bare
            # A channel or a handle is given to operations with its sign or without.
            yield bare.lstrip("#@")
    for match in _CAPITALISED.finditer(sentence):
        words = [_without_s(word) for word in match[0].split()]
        for start in range(len(words)):
            for end in range(start + 1, len(words) + 1):
                yield " ".join(words[start:end])


def _without_s(word: str) -> str:
    return re.sub(r"['’]s$", "", word)  # noqa: RUF001 - as above


def _contact_names(name: str, contacts: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the texts that name this contact: its name, and its first name if nobody shares it."""
    whole = _spaced(name)
    first = whole.partition(" ")[0]
    is_unique = sum(_spaced(other).partition(" ")[0] == first for other in contacts) == 1
    return {_normalized(name), whole, *([first] if is_unique else [])}


def _spaced(name: str) -> str:
    return " ".join(re.split(r"[\s._-]+", name.casefold()))


def _normalized(text: str) -> str:
    """Return the text in lower case without edges; an amount of money as its number."""
    plain = " ".join(text.strip(_EDGE + " ").casefold().split())
    if plain in _STOP_WORDS:
        return ""
    amount = _MONEY.match(plain)
    try:
        return str(Decimal(amount[1].replace(",", "")).normalize()) if amount else plain
    except InvalidOperation:
        return plain
