"""The texts of entries that searches read. Every change of an entry indexes them anew.

The words are stored in the transaction of the change. The vectors of old texts are deleted in it,
and the entry is queued: the next search, of any process, embeds its texts (`memory.vectors.sync`).
"""

import json
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import Connection, Text, cast, delete, insert, select

from memory.content import parse_content, passages, step_text
from memory.errors import EntryInvalid
from memory.relevance import impact, tokenize
from memory.tables import entries, entry_vectors, entry_words, lessons, outdated_entries
from memory.types import PlaybookContent


class SearchedTexts(NamedTuple):
    """The texts of an entry. `text` is a playbook's title, a note, or an example's input."""

    key: int
    text: str
    playbook: PlaybookContent | None
    lessons: Sequence[str]


class EntryText(NamedTuple):
    """A text of an entry that has a vector: a note, an example's input, a passage, or a lesson."""

    key: int
    text: str
    is_lesson: bool = False

    @property
    def digest(self) -> str:
        """The digest by which the vector is found."""
        return text_digest(self.text)


def index_entries(connection: Connection, keys: Sequence[int]) -> None:
    """Index the words of changed or deleted entries, and queue them for the next search."""
    found = searched_texts(connection, keys, lock=True)
    known = [one.key for one in found]
    connection.execute(delete(entry_words).where(entry_words.c.entry_key.in_(known)))
    rows = [
        {"word": word, "entry_key": one.key, "impact": impact}
        for one in found
        for word, impact in word_impacts(one.playbook or one.text, one.lessons).items()
    ]
    if rows:
        connection.execute(insert(entry_words), rows)
    for one in found:
        is_stale = entry_vectors.c.digest.not_in([text.digest for text in texts_with_vector(one)])
        connection.execute(
            delete(entry_vectors).where(entry_vectors.c.entry_key == one.key, is_stale)
        )
    if keys:
        connection.execute(insert(outdated_entries), [{"entry_key": key} for key in keys])


def searched_texts(
    connection: Connection, keys: Sequence[int], *, lock: bool = False
) -> list[SearchedTexts]:
    """Return the texts of these entries; a revoked entry has none.

    With `lock` they stay as they are until the transaction ends, and entries that another
    transaction changes are left out.
    """
    columns = entries.c
    # As text: one row whose JSON is damaged must not stop the others.
    content = cast(columns.content, Text).label("content")
    query = select(columns.key, columns.text, columns.kind, columns.status, content)
    query = query.where(columns.key.in_(keys)).order_by(columns.key)
    if lock:
        query = query.with_for_update(key_share=True, skip_locked=True)
    rows = connection.execute(query).all()
    learned: dict[int, list[str]] = {}
    taught = select(lessons.c.playbook_key, lessons.c.text).where(lessons.c.playbook_key.in_(keys))
    for key, text in connection.execute(taught.order_by(lessons.c.id)):
        learned.setdefault(key, []).append(text)
    return [
        SearchedTexts(
            row.key,
            "" if row.status == "Revoked" else row.text,
            _content(row.content, row.text) if row.kind == "playbook" else None,
            learned.get(row.key, ()),
        )
        for row in rows
    ]


def texts_with_vector(entry: SearchedTexts) -> list[EntryText]:
    """Return the texts of an entry that have a vector."""
    if entry.playbook is None:
        return [EntryText(entry.key, entry.text)] if entry.text else []
    # A single lesson needs no vector: vectors sort the lessons of a playbook.
    sorted_ = entry.lessons if len(entry.lessons) > 1 else ()
    found = dict.fromkeys(passages(entry.playbook, entry.lessons))
    texts = [EntryText(entry.key, text) for text in found]
    return [*texts, *(EntryText(entry.key, text, is_lesson=True) for text in sorted_)]


def word_impacts(entry: PlaybookContent | str, learned: Sequence[str] = ()) -> dict[str, float]:
    """Return each word of a playbook, or of another entry's text, with its part of the BM25 score.

    In a playbook a word counts three times in the title, twice in use case, category and tags,
    once elsewhere.
    """
    weighted_texts: list[tuple[int, str]] = [(1, entry)] if isinstance(entry, str) else [
        (3, entry.title),
        (2, f"{entry.use_case} {entry.category} {' '.join(entry.tags)}"),
        (1, " ".join([entry.process, *map(step_text, entry.steps), *learned])),
    ]  # fmt: skip
    counts: Counter[str] = Counter()
    for weight, text in weighted_texts:
        for word in tokenize(text):
            counts[word] += weight
    length = counts.total()
    return {word: round(impact(count, length), 4) for word, count in counts.items()}


def text_digest(text: str) -> str:
    """Return the digest by which the vector of a text is found."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _content(document: str, title: str) -> PlaybookContent:
    """Return the content of a JSON text; only the title of one that is damaged."""
    try:
        return parse_content(json.loads(document))
    except (ValueError, EntryInvalid):
        return PlaybookContent(title=title)
