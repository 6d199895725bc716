"""The truth about playbooks: each function works within the transaction that it is given."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from memory.content import content_json, embedding_text, parse_content, sanitize_text, slugify
from memory.errors import PlaybookInvalid, PlaybookNotFound, StaleUpdate, StoreCorrupt
from memory.rows import KEYS_PARAMETER, PlaybookSelect, read_playbooks, read_playbooks_strictly
from memory.tables import outdated_playbooks, playbook_tags, playbook_words, playbooks, versions
from memory.types import Playbook, PlaybookContent, PlaybookFilter, PlaybookVersion
from memory.vectors import stored_vectors
from memory.words import word_impacts

MAX_LISTED = 1_000_000
"""Playbooks that are listed at once: more than this is meant as all."""

_BY_KEY = select(playbooks).where(playbooks.c.key.in_(KEYS_PARAMETER))


class PlaybookIdentity(NamedTuple):
    """What names a playbook, apart from what it says; kept by export and import."""

    id: str
    slug: str


def add(
    connection: Connection,
    content: PlaybookContent,
    *,
    source: str,
    at: datetime,
    identity: PlaybookIdentity | None = None,
) -> Playbook:
    """Keep a new playbook; a slug that is taken gets the beginning of the id behind it."""
    new = identity or PlaybookIdentity(str(uuid4()), slugify(content.title))
    row = {
        **content_json(content),
        "id": new.id,
        "version": 1,
        "successes": 0,
        "partials": 0,
        "failures": 0,
        "source": source,
        "created_at": at,
        "updated_at": at,
    }
    key = _insert(connection, row, new.slug) or _insert(
        connection, row, f"{new.slug[:111]}-{new.id[:8]}"
    )
    if key is None:
        raise PlaybookInvalid(f"no free slug for {new.slug!r}: give the playbook another title")
    _write_parts(connection, key, content, version=1, source=source, at=at)
    return by_key(connection, [key])[key]


def get(connection: Connection, ref: str) -> Playbook:
    """The playbook with this id or slug.

    Raises:
        PlaybookNotFound: there is none.
    """
    found = find(connection, ref)
    if found is None:
        raise PlaybookNotFound(
            f"no playbook {ref!r}: neither an id nor a slug. `harness memory list` shows all"
        )
    return found


def find(connection: Connection, ref: str, *, lock: bool = False) -> Playbook | None:
    """The playbook with this id or slug, or None; an id goes before a slug.

    With `lock` nobody else changes it before the transaction ends.
    """
    ref = sanitize_text(ref)
    by_id = playbooks.c.id == ref
    query = select(playbooks).where(or_(by_id, playbooks.c.slug == ref)).order_by(by_id.desc())
    return next(
        iter(read_playbooks_strictly(connection, (_held(query) if lock else query).limit(1))), None
    )


def by_key(
    connection: Connection, keys: Sequence[int], *, held: bool = False
) -> dict[int, Playbook]:
    """Playbooks by their key; those that are gone or damaged are left out.

    `held`: nobody else changes or removes them before the transaction ends.
    """
    query = _held(_BY_KEY) if held else _BY_KEY
    return {
        playbook.key: playbook for playbook in read_playbooks(connection, query, {"keys": keys})
    }


def by_id(connection: Connection, ids: Sequence[str]) -> dict[str, Playbook]:
    """Playbooks by their id; those that are gone or damaged are left out."""
    query = select(playbooks).where(playbooks.c.id.in_(ids))
    return {playbook.id: playbook for playbook in read_playbooks(connection, query)}


def lock_playbook(connection: Connection, id_: str) -> Playbook | None:
    """The playbook, which nobody else changes or removes before the transaction ends."""
    query = _held(select(playbooks).where(playbooks.c.id == id_))
    return next(iter(read_playbooks_strictly(connection, query)), None)


def list_all(
    connection: Connection, where: PlaybookFilter, *, limit: int | None = None
) -> list[Playbook]:
    """Playbooks that pass the filter, the newest change first; damaged ones are left out."""
    query = (
        select(playbooks)
        .where(*filter_conditions(where))
        .order_by(playbooks.c.updated_at.desc(), playbooks.c.id)
        .limit(limit if limit is None else min(limit, MAX_LISTED))
    )
    return read_playbooks(connection, query)


def list_everything(connection: Connection) -> list[Playbook]:
    """All playbooks, in the order of their ids.

    Raises:
        StoreCorrupt: one is damaged.
    """
    return read_playbooks_strictly(connection, select(playbooks).order_by(playbooks.c.id))


def count_all(connection: Connection, where: PlaybookFilter) -> int:
    """How many playbooks pass the filter."""
    query = select(func.count()).select_from(playbooks).where(*filter_conditions(where))
    return connection.execute(query).scalar_one()


def filter_conditions(where: PlaybookFilter) -> list[ColumnElement[bool]]:
    """The filter as SQL, for any query over `playbooks`."""
    wanted: list[ColumnElement[bool]] = []
    if not where.archived:
        wanted.append(playbooks.c.status != "archived")
    if not where.drafts:
        wanted.append(or_(playbooks.c.status != "draft", playbooks.c.source == where.own_source))
    if where.category is not None:
        wanted.append(playbooks.c.category == sanitize_text(where.category))
    for tag in where.tags:
        own = playbook_tags.c.playbook_key == playbooks.c.key
        wanted.append(exists().where(own, playbook_tags.c.tag == sanitize_text(tag)))
    return wanted


def change(
    connection: Connection,
    playbook: Playbook,
    content: PlaybookContent,
    *,
    source: str,
    at: datetime,
    expected: int | None = None,
    version: int | None = None,
) -> Playbook:
    """Replace the content and grow the version, by one or to `version`.

    `expected` is the version that the change was made from; by default the one given.

    Raises:
        StaleUpdate: the store holds another version by now.
    """
    base = playbook.version if expected is None else expected
    new = max(base + 1, version or 0)
    changed = connection.execute(
        update(playbooks)
        .where(
            playbooks.c.key == playbook.key,
            playbooks.c.version == playbook.version,  # what `content` was made from
            playbooks.c.version == base,
        )
        .values(**content_json(content), version=new, updated_at=at)
    )
    if changed.rowcount != 1:
        now = get(connection, playbook.id).version
        raise StaleUpdate(
            f"playbook {playbook.slug!r} is at version {now}; your change was made from version "
            f"{base}. Read it again and repeat the change"
        )
    if _embedded(content) != _embedded(playbook):
        stored_vectors.delete_vector(connection, playbook.key)
    _write_parts(connection, playbook.key, content, version=new, source=source, at=at)
    return get(connection, playbook.id)


def remove(connection: Connection, ref: str) -> bool:
    """Forget a playbook with all that belongs to it; False when there is none."""
    ref = sanitize_text(ref)
    by_id_ = playbooks.c.id == ref
    query = select(playbooks.c.key).where(or_(by_id_, playbooks.c.slug == ref))
    key = connection.execute(
        query.order_by(by_id_.desc()).limit(1)
    ).scalar()  # also of a damaged one
    if key is None:
        return False
    mark_outdated(connection, [key])
    connection.execute(delete(playbooks).where(playbooks.c.key == key))
    return True


def history(connection: Connection, key: int) -> list[PlaybookVersion]:
    """Every version of a playbook, the newest first.

    Raises:
        StoreCorrupt: one is damaged.
    """
    query = select(versions).where(versions.c.playbook_key == key)
    return [_version(row) for row in connection.execute(query.order_by(versions.c.version.desc()))]


def written_by_others(connection: Connection, keys: Sequence[int]) -> set[int]:
    """Those of these that anybody but a person made, or ever changed: a run, or an imported file.

    What `prune` archived is in the words that were there.
    """
    wrote = (versions.c.source != "person", versions.c.source.not_like("prune: %"))
    changed = select(versions.c.playbook_key).where(versions.c.playbook_key.in_(keys), *wrote)
    made = select(playbooks.c.key).where(playbooks.c.key.in_(keys), playbooks.c.source != "person")
    return set(connection.execute(changed.union(made)).scalars())


def mark_outdated(connection: Connection, keys: Iterable[int]) -> None:
    """Tell the vector index to look at these again; part of the change's own transaction."""
    rows = [{"playbook_key": key} for key in keys]
    if rows:
        connection.execute(insert(outdated_playbooks), rows)


def write_words(connection: Connection, key: int, content: PlaybookContent) -> None:
    """Make the word index of one playbook anew."""
    connection.execute(delete(playbook_words).where(playbook_words.c.playbook_key == key))
    rows = [
        {"word": word, "playbook_key": key, "impact": impact}
        for word, impact in word_impacts(content).items()
    ]
    if rows:
        connection.execute(insert(playbook_words), rows)


def _held(query: PlaybookSelect) -> PlaybookSelect:
    # As little as does: executions and words may name a playbook that is held.
    return query.with_for_update(key_share=True)


def _version(row: "Row[tuple[object, ...]]") -> PlaybookVersion:
    try:
        content = parse_content(row.content)
    except PlaybookInvalid as error:
        where = f"version {row.version} of playbook {row.playbook_key} in 'playbook_versions'"
        raise StoreCorrupt(f"{where} is damaged: {error}") from error
    return PlaybookVersion(version=row.version, at=row.at, source=row.source, content=content)


def _embedded(content: PlaybookContent) -> str:
    return embedding_text(content.title, content.use_case)


def _insert(connection: Connection, row: dict[str, object], slug_: str) -> int | None:
    if connection.execute(select(playbooks.c.key).where(playbooks.c.slug == slug_)).first():
        return None
    try:
        with connection.begin_nested():
            made = connection.execute(insert(playbooks).values(**row, slug=slug_))
    except IntegrityError:
        return None
    assert made.inserted_primary_key is not None  # noqa: S101 - tells the type checker
    return int(made.inserted_primary_key[0])


def _write_parts(
    connection: Connection,
    key: int,
    content: PlaybookContent,
    *,
    version: int,
    source: str,
    at: datetime,
) -> None:
    connection.execute(delete(playbook_tags).where(playbook_tags.c.playbook_key == key))
    if content.tags:
        rows = [{"playbook_key": key, "tag": tag} for tag in content.tags]
        connection.execute(insert(playbook_tags), rows)
    kept = {"version": version, "at": at, "source": source, "content": content_json(content)}
    connection.execute(insert(versions).values(playbook_key=key, **kept))
    write_words(connection, key, content)
    mark_outdated(connection, [key])
