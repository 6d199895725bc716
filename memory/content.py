"""Validation of playbook content, its forms as JSON and as text, slugs and digests."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import isfinite
from textwrap import wrap

from pydantic import TypeAdapter, ValidationError

from memory.errors import EntryInvalid
from memory.types import Playbook, PlaybookChanges, PlaybookContent, PlaybookStep

TITLE_LIMIT = 255
TEXT_LIMIT = 100_000
"""Largest number of characters of one text of a playbook."""

CONTENT_LIMIT = 500_000
"""Largest number of characters of all its texts together."""

PASSAGE_LENGTH = 800
"""Characters of a passage: embedding models read 256 tokens and more."""

MAX_PASSAGES = 32
"""Passages of a playbook that are embedded. Its words are searched beyond them."""

_MAX_STEPS = 200
_MAX_TAGS = 50
_MAX_JSON_DEPTH = 50
_MAX_INTEGER_BITS = 1_024
_CONTENT = TypeAdapter(PlaybookContent)
_ANYTHING = TypeAdapter(object)
CONTENT_FIELDS = tuple(PlaybookContent.__dataclass_fields__)


def validate_content(content: PlaybookContent) -> PlaybookContent:
    """Return the content as it is stored: trimmed, steps in order, tags sorted and distinct.

    Raises:
        EntryInvalid: no title, a NUL byte, a value that is not JSON, or a text too long.
    """
    texts = _texts(content)
    for field, text, limit in texts:
        _check_text(field, text, limit)
    _check_text("all of a playbook", "".join(text for _, text, _ in texts), CONTENT_LIMIT)
    if not content.title.strip():
        raise EntryInvalid("a playbook needs a title that says what it is for; got an empty one")
    if len(content.steps) > _MAX_STEPS or len(content.tags) > _MAX_TAGS:
        raise EntryInvalid(
            f"playbook {content.title!r} has {len(content.steps)} steps and {len(content.tags)} "
            f"tags; at most {_MAX_STEPS} and {_MAX_TAGS} are allowed. Split it in two"
        )
    return replace(
        content,
        title=" ".join(content.title.split()),
        category=content.category.strip(),
        steps=_in_order(content.steps),
        # Sorted, so that the same tags in another order are no change.
        tags=tuple(sorted({tag.strip() for tag in content.tags if tag.strip()})),
    )


def content_length(content: PlaybookContent) -> int:
    """Return the number of characters of all texts."""
    return sum(len(text) for _, text, _ in _texts(content))


def parse_content(document: object) -> PlaybookContent:
    """Return the content that a JSON object from a file, an editor or an agent holds.

    Raises:
        EntryInvalid: a field is missing, unknown or of the wrong type; the first is named.
    """
    try:
        return _CONTENT.validate_python(document, extra="forbid")
    except ValidationError as error:
        raise EntryInvalid(f"not a playbook: {first_problem(error)}") from error


def first_problem(error: ValidationError) -> str:
    """Return the first field that pydantic refused, and why, in one line."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{field!r}: {message}" if field else message


def to_json(value: object, *names: str) -> dict[str, object]:
    """Return a dataclass as a JSON object; `names` limits it to these fields."""
    document: dict[str, object] = _ANYTHING.dump_python(value, mode="json")
    # pydantic writes UTC as Z, which Python cannot parse before version 3.11.
    moments = {n: v.isoformat() for n, v in vars(value).items() if isinstance(v, datetime)}
    return {name: (document | moments)[name] for name in names or document}


def content_json(content: PlaybookContent) -> dict[str, object]:
    """Return the content as a JSON object; `parse_content` reads it back."""
    return to_json(content, *CONTENT_FIELDS)


def content_of(playbook: Playbook) -> PlaybookContent:
    """Return only the part of a playbook that people and agents write."""
    return parse_content(content_json(playbook))


def playbook_json(playbook: Playbook) -> dict[str, object]:
    """Return a playbook as `--json`, the pages and the agents' tools show it."""
    return {
        **to_json(playbook, "id", "slug", "version"),
        **content_json(playbook),
        "lessons": [lesson.text for lesson in playbook.lessons],
        **to_json(playbook.counts),
        "confidence": round(playbook.confidence, 4),
        **to_json(playbook, "created_at", "updated_at", "last_used_at", "source"),
    }


def slugify(title: str) -> str:
    """Return the title in lower-case letters, digits and hyphens; never empty."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:100] or "playbook"


def embedding_text(title: str, use_case: str) -> str:
    """Return the text of a playbook that is embedded."""
    return f"{title} — {use_case}" if use_case else title


def passages(content: PlaybookContent, lessons: Sequence[str]) -> list[str]:
    """Return the texts of a playbook that are embedded: one if it is short.

    A long one is its title with the use case, then all its texts in passages that start with the
    title, up to `MAX_PASSAGES`.
    """
    title, use_case = content.title, content.use_case
    head = embedding_text(title, use_case)
    body = "\n".join((content.process, *map(step_text, content.steps), *lessons)).strip()
    whole = f"{head}\n{body}".strip()
    if len(whole) <= PASSAGE_LENGTH:
        return [whole]
    rest = body if len(head) <= PASSAGE_LENGTH else f"{use_case}\n{body}"
    parts = wrap(rest[: PASSAGE_LENGTH * MAX_PASSAGES], PASSAGE_LENGTH)
    return [head, *(f"{title}: {part}" for part in parts[: MAX_PASSAGES - 1])]


def step_text(step: PlaybookStep) -> str:
    """Return the text of a step that is searched."""
    return " ".join(filter(None, (step.action, step.tool, step.expected)))


def normalized_digest(text: str) -> str:
    """Return a digest that ignores case, spaces and punctuation."""
    words = re.findall(r"\w+", text.lower())
    # A text of punctuation alone has no words, and must not equal every other such text.
    return hashlib.sha256(" ".join(words or [text]).encode("utf-8", "replace")).hexdigest()[:32]


def lesson_digest(text: str) -> str:
    """Return a digest that ignores case, spaces and punctuation at the end.

    Punctuation elsewhere counts: it may be the point of a lesson (-1, C++, < 60).
    """
    words = " ".join(text.lower().split())
    # A lesson of punctuation alone stays distinct as well.
    return hashlib.sha256((words.rstrip(".,;:!?… ") or words).encode()).hexdigest()[:32]


def sanitize_text(text: str) -> str:
    """Return text that every database can store: no NUL byte, no unpaired surrogate."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def _in_order(steps: tuple[PlaybookStep, ...]) -> tuple[PlaybookStep, ...]:
    numbered = sorted(enumerate(steps, 1), key=lambda pair: pair[1].order or pair[0])
    return tuple(replace(step, order=number) for number, (_, step) in enumerate(numbered, 1))


def _texts(content: PlaybookContent) -> list[tuple[str, str, int]]:
    """Return each text with the name of its field and its limit."""
    texts = [
        ("title", content.title, TITLE_LIMIT),
        ("category", content.category, TITLE_LIMIT),
        *(("tags", tag, TITLE_LIMIT) for tag in content.tags),
        ("use_case", content.use_case, TEXT_LIMIT),
        ("process", content.process, TEXT_LIMIT),
        ("notes", content.notes, TEXT_LIMIT),
    ]
    for number, step in enumerate(content.steps, 1):
        args = "\n".join(_json_texts(f"steps.{number}.tool_args", step.tool_args))
        parts = {"action": step.action, "tool": step.tool, "tool_args": args}
        parts |= {"expected": step.expected, "fallback": step.fallback}
        texts += [(f"steps.{number}.{name}", text, TEXT_LIMIT) for name, text in parts.items()]
    return texts


def _json_texts(field: str, value: object, depth: int = 0) -> Iterator[str]:
    """Yield each key, text and number of a JSON value."""
    if depth > _MAX_JSON_DEPTH or _is_unstorable_number(value):
        raise EntryInvalid(
            f"{field} is nested deeper than {_MAX_JSON_DEPTH} levels, or holds a number that JSON "
            "has no form for. Write it as text"
        )
    match value:
        case str():
            yield value
        case Mapping():
            for pair in value.items():
                for part in pair:
                    yield from _json_texts(field, part, depth + 1)
        case list() | tuple():
            for part in value:
                yield from _json_texts(field, part, depth + 1)
        case _:
            yield repr(value)


def _is_unstorable_number(value: object) -> bool:
    if isinstance(value, float):
        return not isfinite(value)
    return isinstance(value, int) and value.bit_length() > _MAX_INTEGER_BITS


def _check_text(field: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise EntryInvalid(
            f"{field} has {len(text):,} characters; at most {limit:,} are allowed. Shorten it"
        )
    if text != sanitize_text(text):
        raise EntryInvalid(
            f"{field} has a NUL byte or an unpaired surrogate: {text[:40]!r}. Remove it"
        )


def playbook_to_json(playbook: Playbook) -> str:
    """Return the content as JSON to edit, with invisible characters escaped as `\\u202e`."""
    # An editor would hide direction marks and zero-width characters of a hostile text.
    text = json.dumps(content_json(playbook), indent=2, ensure_ascii=False) + "\n"
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def parse_json(text: str) -> object:
    """Return the value of a JSON text.

    Raises:
        EntryInvalid: it is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # also integers of more than 4,300 digits
        raise EntryInvalid(f"not a playbook: {error}. Write it as a JSON object") from error


def parse_changes(text: str) -> PlaybookChanges:
    """Return an edited JSON document as changes of every field.

    Raises:
        EntryInvalid: it is not a playbook.
    """
    return PlaybookChanges(**vars(parse_content(parse_json(text))))


def playbook_to_text(playbook: Playbook) -> str:
    """Return a playbook as text, with everything that prompts show of it."""
    counts = playbook.counts
    lines = [
        f"{playbook.title} ({playbook.slug}, version {playbook.version}, {playbook.status})",
        f"id: {playbook.id}",
        f"confidence: {playbook.confidence:.0%}, {counts.succeeded} good, {counts.failures} failed",
    ]
    if playbook.use_case:
        lines.append(f"when: {playbook.use_case}")
    if playbook.category or playbook.tags:
        lines.append(f"filed under: {', '.join((playbook.category or '-', *playbook.tags))}")
    lines += [playbook.process] if playbook.process else []
    lines += [line for step in playbook.steps for line in _step_lines(step)]
    lines += [f"lesson {number}: {one.text}" for number, one in enumerate(playbook.lessons, 1)]
    lines += [f"notes: {playbook.notes}"] if playbook.notes else []
    return "\n".join(lines)


def _step_lines(step: PlaybookStep) -> list[str]:
    args = json.dumps(step.tool_args, ensure_ascii=False) if step.tool_args else ""
    parts = {
        "tool": f"{step.tool} {args}".strip(),
        "expect": step.expected,
        "otherwise": step.fallback,
    }
    details = [f"     {name}: {text}" for name, text in parts.items() if text]
    return [f"  {step.order}. {step.action}", *details]
