"""What a playbook may hold, checked in one place; slugs and fingerprints."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import isfinite

from pydantic import TypeAdapter, ValidationError

from memory.errors import PlaybookInvalid
from memory.types import Playbook, PlaybookContent, PlaybookStep

TITLE_LIMIT = 255
TEXT_LIMIT = 100_000
"""Characters that one text of a playbook may have."""

CONTENT_LIMIT = 500_000
"""Characters that all its texts together may have."""

_STEPS = 200
_TAGS = 50
_DEEPEST = 50
_LONGEST_BITS = 1_024
_PLAIN = re.compile(r"[^a-z0-9]+")
_CONTENT = TypeAdapter(PlaybookContent)


def validate_content(content: PlaybookContent) -> PlaybookContent:
    """The content as it will be kept: trimmed, tags in order and once.

    Raises:
        PlaybookInvalid: no title, a NUL byte, no JSON, or something too long.
    """
    texts = _texts(content)
    for place, text, limit in texts:
        _check_text(place, text, limit)
    _check_text("all of a playbook", "".join(text for _, text, _ in texts), CONTENT_LIMIT)
    if not content.title.strip():
        raise PlaybookInvalid("a playbook needs a title that says what it is for; got an empty one")
    if len(content.steps) > _STEPS or len(content.tags) > _TAGS:
        raise PlaybookInvalid(
            f"playbook {content.title!r} has {len(content.steps)} steps and {len(content.tags)} "
            f"tags; at most {_STEPS} and {_TAGS} fit. Split it in two"
        )
    tags = sorted({tag.strip() for tag in content.tags if tag.strip()})
    return replace(
        content,
        title=" ".join(content.title.split()),
        category=content.category.strip(),
        steps=_in_order(content.steps),
        tags=tuple(tags),
    )


def content_length(content: PlaybookContent) -> int:
    """How many all its texts have together."""
    return sum(len(text) for _, text, _ in _texts(content))


def parse_content(document: object) -> PlaybookContent:
    """Content from outside: a file, an editor, an agent's call.

    Raises:
        PlaybookInvalid: it is not the shape of one; the first fault is named.
    """
    try:
        return _CONTENT.validate_python(document, extra="forbid")
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise PlaybookInvalid(f"not a playbook: {place!r}: {first['msg']}") from error


def content_json(content: PlaybookContent) -> dict[str, object]:
    """The content as a JSON object; `parse_content` reads it back."""
    own = PlaybookContent(
        **{name: getattr(content, name) for name in PlaybookContent.__dataclass_fields__}
    )
    document = _CONTENT.dump_python(own, mode="json")
    assert isinstance(document, dict)  # noqa: S101 - tells the type checker
    return document


def content_of(playbook: Playbook) -> PlaybookContent:
    """The part of a playbook that people and agents write."""
    return parse_content(content_json(playbook))


def slugify(title: str) -> str:
    """The title as it looks in an address; never empty."""
    return _PLAIN.sub("-", title.lower()).strip("-")[:100] or "playbook"


def embedding_text(title: str, use_case: str) -> str:
    """What a playbook is found by."""
    return f"{title} — {use_case}" if use_case else title


def normalized_digest(text: str) -> str:
    """A fingerprint that is the same for restatements that differ in case, space and marks."""
    words = re.findall(r"\w+", text.lower())
    return hashlib.sha256(" ".join(words or [text]).encode("utf-8", "replace")).hexdigest()[:32]


def lesson_digest(text: str) -> str:
    """A fingerprint that is the same for texts that differ in case, space and the mark at the end.

    A sign anywhere else may be what matters: -1, C++, < 60.
    """
    words = " ".join(text.lower().split())
    return hashlib.sha256((words.rstrip(".,;:!?… ") or words).encode()).hexdigest()[:32]


def sanitize_text(text: str) -> str:
    """Text of a program or a model, made fit for every database: no NUL, valid Unicode."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def _in_order(steps: tuple[PlaybookStep, ...]) -> tuple[PlaybookStep, ...]:
    placed = sorted(enumerate(steps, 1), key=lambda pair: pair[1].order or pair[0])
    return tuple(replace(step, order=number) for number, (_, step) in enumerate(placed, 1))


def _texts(content: PlaybookContent) -> list[tuple[str, str, int]]:
    texts = [
        ("title", content.title, TITLE_LIMIT),
        ("category", content.category, TITLE_LIMIT),
        *(("tags", tag, TITLE_LIMIT) for tag in content.tags),
        ("use_case", content.use_case, TEXT_LIMIT),
        ("process", content.process, TEXT_LIMIT),
        ("notes", content.notes, TEXT_LIMIT),
    ]
    for number, step in enumerate(content.steps, 1):
        texts += _step_texts(number, step)
    return texts


def _step_texts(number: int, step: PlaybookStep) -> list[tuple[str, str, int]]:
    parts = {
        "action": step.action,
        "tool": step.tool,
        "tool_args": "\n".join(_said(f"steps.{number}.tool_args", step.tool_args)),
        "expected": step.expected,
        "fallback": step.fallback,
    }
    return [(f"steps.{number}.{name}", text, TEXT_LIMIT) for name, text in parts.items()]


def _said(place: str, value: object, deep: int = 0) -> Iterator[str]:
    """Each text and number in a value of JSON, names too."""
    if deep > _DEEPEST or _is_no_number(value):
        raise PlaybookInvalid(
            f"{place} is nested deeper than {_DEEPEST} levels, or has a number that is none or too "
            "long for JSON. Write it as text"
        )
    match value:
        case str():
            yield value
        case Mapping():
            for pair in value.items():
                for part in pair:
                    yield from _said(place, part, deep + 1)
        case list() | tuple():
            for part in value:
                yield from _said(place, part, deep + 1)
        case _:
            yield repr(value)


def _is_no_number(value: object) -> bool:
    if isinstance(value, float):
        return not isfinite(value)
    return isinstance(value, int) and value.bit_length() > _LONGEST_BITS


def _check_text(place: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise PlaybookInvalid(
            f"{place} has {len(text):,} characters; at most {limit:,} fit. Keep what is needed"
        )
    if "\0" in text or text != sanitize_text(text):
        raise PlaybookInvalid(
            f"{place} holds a NUL byte or half a character: {text[:40]!r}. Remove it"
        )
