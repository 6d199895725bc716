"""Access to chromadb: clients without telemetry, collections that find every record.

No other module imports chromadb.
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import urlsplit

from memory.content import sanitize_text
from memory.types import PlaybookFilter

if TYPE_CHECKING:
    from chromadb import Collection
    from chromadb.api import ClientAPI
    from chromadb.api.types import Where
    from chromadb.config import Settings

WRITE_BATCH = 1_000

PASSAGE_FACTOR = 4
"""Factor by which more records are searched when they belong to too few playbooks."""

_Metadata = dict[str, str | int | bool | None]


class IndexEntry(NamedTuple):
    """The vector of a playbook's passage, and the fields that searches filter by."""

    key: int
    number: int
    """Number of the vector, never used again for another one."""
    vector: Sequence[float]
    category: str
    tags: tuple[str, ...]
    taught: bool = False
    """Whether the playbook has lessons."""

    @property
    def id(self) -> str:
        """The id of the record in Chroma."""
        return f"{self.key}-{self.number}"


class VectorIndexCorrupt(Exception):
    """The index cannot be read or written. It can be rebuilt from the database."""


class VectorIndexUnavailable(Exception):
    """The Chroma server does not answer, or the index folder cannot be used."""


class VectorIndexStale(Exception):
    """The index does not hold exactly the changes that the database holds."""


def refuse_forked_process() -> None:
    """Refuse a process that was forked from one that used Chroma.

    In such a process every call of Chroma hangs, even on a new client, and even if the parent had
    closed its own.

    Raises:
        VectorIndexUnavailable: this is such a process.
    """
    if _used_in and os.getpid() not in _used_in:
        raise VectorIndexUnavailable(
            "this process was forked from one that had the vector index open, where Chroma does "
            "not work: start it as a new process"
        )


_used_in: set[int] = set()


def import_library() -> None:
    """Import chromadb, which takes two seconds of processor, before anything is locked."""
    import chromadb  # noqa: F401 - importing it is the point


@cache
def chroma_errors() -> tuple[type[Exception], ...]:
    """Return the types that chromadb raises for a broken client, server or folder."""
    from chromadb.errors import ChromaError

    # chromadb's Rust code and its client raise these builtin types. AttributeError comes from
    # its cleanup after a folder that did not open.
    return (ChromaError, AttributeError, KeyError, OSError, RuntimeError, ValueError)


def without_credentials(url: str) -> str:
    """Return the URL without user, password and query, for messages."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


@contextmanager
def translate_http_errors(url: str) -> Iterator[None]:
    """Raise VectorIndexUnavailable for errors of the connection to the server at `url`."""
    import httpx

    try:
        yield
    except httpx.HTTPError as error:
        raise _no_answer(url, error) from error
    except Exception as error:
        # chromadb raises a bare Exception for an answer that is not Chroma's, such as a proxy's.
        if type(error) is not Exception:
            raise
        raise VectorIndexUnavailable(
            f"the server at {without_credentials(url)!r} is not Chroma: {error}"
        ) from error


def open_folder(folder: Path) -> "ClientAPI":
    """Return a client of a folder, which no other process may have open."""
    import chromadb

    _used_in.add(os.getpid())
    return chromadb.PersistentClient(str(folder), settings=_settings())


def close(client: "ClientAPI") -> bool:
    """Close a client; return False in a forked process, where closing hangs."""
    if os.getpid() not in _used_in:
        return False
    from chromadb.api.client import Client

    if isinstance(client, Client):
        client.close()
    return True


def connect(url: str) -> "ClientAPI":
    """Return a client of the `chroma run` server at this URL.

    Raises:
        VectorIndexUnavailable: it does not answer.
    """
    import chromadb

    _used_in.add(os.getpid())
    parts = urlsplit(url)
    try:
        return chromadb.HttpClient(
            host=parts.hostname or "localhost",
            port=parts.port or (443 if parts.scheme == "https" else 8000),
            ssl=parts.scheme == "https",
            settings=_settings(),
        )
    except chroma_errors() as error:
        raise _no_answer(url, error) from error


def open_collection(client: "ClientAPI", name: str) -> "Collection":
    """Return the collection of this name, created if missing."""
    # With Chroma's default settings, 1 in 1,000 clustered records is not found by its own vector.
    return client.get_or_create_collection(
        name,
        embedding_function=None,
        configuration={
            "hnsw": {
                "space": "cosine",
                "ef_construction": 400,
                "max_neighbors": 48,
                "ef_search": 400,
            }
        },
    )


def write(
    collection: "Collection", entries: Sequence[IndexEntry], playbook_keys: Sequence[int]
) -> None:
    """Make `entries` the only records of these playbooks."""
    these: dict[Literal["$in", "$nin"], list[str | int | float | bool]]
    these = {"$in": [*playbook_keys]}
    stored = collection.get(where={"playbook": these}, include=["metadatas"])
    old = dict(zip(stored["ids"], stored["metadatas"] or (), strict=False))
    wanted = {entry.id: entry for entry in entries}
    # A record is never written again under its id: Chroma's graph loses records that are deleted
    # and then added again, and opens a folder by adding its logged vectors in parallel threads,
    # where a repeated one can cut off those added meanwhile.
    for batch in _batches([id_ for id_ in old if id_ not in wanted]):
        collection.delete(ids=batch)
    for batch in _batches([id_ for id_ in wanted if id_ not in old]):
        collection.upsert(
            ids=batch,
            embeddings=[wanted[id_].vector for id_ in batch],
            metadatas=[_metadata(wanted[id_], {}) for id_ in batch],
        )
    refiled = {id_: _metadata(wanted[id_], old[id_] or {}) for id_ in old if id_ in wanted}
    for batch in _batches([id_ for id_, new in refiled.items() if new != old[id_]]):
        collection.update(ids=batch, metadatas=[refiled[id_] for id_ in batch])


def _batches(ids: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(ids), WRITE_BATCH):
        yield list(ids[start : start + WRITE_BATCH])


def nearest(
    collection: "Collection", vector: Sequence[float], where: PlaybookFilter, limit: int
) -> list[tuple[int, float]]:
    """Return playbook keys with the distance of their nearest passage, the nearest first."""
    records = limit
    while True:
        found = collection.query(
            query_embeddings=[vector],
            n_results=records,
            where=_conditions(where),
            include=["distances"],
        )
        best: dict[int, float] = {}
        for id_, distance in zip(found["ids"][0], (found["distances"] or [[]])[0], strict=True):
            best.setdefault(playbook_key(id_), float(distance))
        # Several passages of long playbooks take the places of others.
        if len(best) >= limit or len(found["ids"][0]) < records:
            return list(best.items())[:limit]
        records *= PASSAGE_FACTOR


def playbook_key(record_id: str) -> int:
    """Return the playbook that a record belongs to."""
    return int(record_id.partition("-")[0])


def last_change(collection: "Collection") -> int:
    """Return the number of the last change that the collection holds; 0 if it is new."""
    number = (collection.metadata or {}).get("seen", 0)
    return number if isinstance(number, int) else 0


def set_last_change(collection: "Collection", number: int) -> None:
    """Record that the collection holds every change up to this number."""
    collection.modify(metadata={"seen": number})


def keys(collection: "Collection") -> set[int]:
    """Return the key of every playbook in the collection."""
    return {playbook_key(id_) for id_ in collection.get(include=[])["ids"]}


def _no_answer(url: str, error: Exception) -> VectorIndexUnavailable:
    return VectorIndexUnavailable(f"no Chroma answers at {without_credentials(url)!r}: {error}")


def _settings() -> "Settings":
    from chromadb.config import Settings

    logging.getLogger("chromadb").setLevel(logging.CRITICAL)
    return Settings(anonymized_telemetry=False)


def _metadata(entry: IndexEntry, old: Mapping[str, object]) -> _Metadata:
    # An update merges metadata, so a tag that was removed is named with None.
    new: _Metadata = {"category": entry.category, "playbook": entry.key}
    return dict.fromkeys(old) | new | {f"tag {tag}": True for tag in entry.tags}


def _conditions(where: PlaybookFilter) -> "Where | None":
    wanted: list[Where] = []
    if where.category is not None:
        wanted.append({"category": sanitize_text(where.category)})
    wanted += [{f"tag {sanitize_text(tag)}": True} for tag in where.tags]
    if not wanted:
        return None
    return wanted[0] if len(wanted) == 1 else {"$and": wanted}
