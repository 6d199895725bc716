"""Access to chromadb: clients without telemetry, collections that find every record.

No other module imports chromadb. `python -m memory.vectors.chroma FOLDER` exits with 0 if the
records of a folder find themselves: a damaged folder can crash the process that opens it.
"""

import logging
import os
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from memory.content import sanitize_text
from memory.types import PlaybookFilter

if TYPE_CHECKING:
    from chromadb import Collection
    from chromadb.api import ClientAPI
    from chromadb.api.types import Where
    from chromadb.config import Settings

WRITE_BATCH = 1_000

_Metadata = dict[str, str | bool | None]

SAMPLE = 50
"""Records of each collection that `probe` looks up by their own vector."""


class IndexEntry(NamedTuple):
    """A playbook's vector, and the fields that searches filter by."""

    key: int
    vector: Sequence[float]
    category: str
    tags: tuple[str, ...]


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


def upsert(collection: "Collection", entries: Sequence[IndexEntry]) -> None:
    """Write what is new in these entries, replacing those with the same key."""
    # Never delete first: Chroma's graph loses records that are deleted and then added again.
    ids = [str(entry.key) for entry in entries]
    stored = collection.get(ids=ids, include=["metadatas"])
    old = dict(zip(stored["ids"], stored["metadatas"] or (), strict=False))
    changed: list[tuple[IndexEntry, _Metadata]] = []
    refiled: dict[str, _Metadata] = {}
    for id_, entry in zip(ids, entries, strict=True):
        before = old.get(id_) or {}
        metadata = _metadata(entry, before)
        if metadata["vector"] != before.get("vector"):
            changed.append((entry, metadata))
        elif metadata != before:
            refiled[id_] = metadata
    # A vector is written again only if it changed. Chroma opens a folder by adding its logged
    # vectors to the graph in parallel threads, where a repeated one can cut off those added
    # meanwhile: no search of that process finds them.
    if changed:
        collection.upsert(
            ids=[str(entry.key) for entry, _ in changed],
            embeddings=[entry.vector for entry, _ in changed],
            metadatas=[metadata for _, metadata in changed],
        )
    if refiled:
        collection.update(ids=list(refiled), metadatas=list(refiled.values()))


def nearest(
    collection: "Collection", vector: Sequence[float], where: PlaybookFilter, limit: int
) -> list[tuple[int, float]]:
    """Return keys and cosine distances, the nearest first."""
    found = collection.query(
        query_embeddings=[vector],
        n_results=limit,
        where=_conditions(where),
        include=["distances"],
    )
    distances = (found["distances"] or [[]])[0]
    return [(int(key), float(d)) for key, d in zip(found["ids"][0], distances, strict=True)]


def last_change(collection: "Collection") -> int:
    """Return the number of the last change that the collection holds; 0 if it is new."""
    number = (collection.metadata or {}).get("seen", 0)
    return number if isinstance(number, int) else 0


def set_last_change(collection: "Collection", number: int) -> None:
    """Record that the collection holds every change up to this number."""
    collection.modify(metadata={"seen": number})


def keys(collection: "Collection") -> set[int]:
    """Return every key in the collection."""
    return {int(key) for key in collection.get(include=[])["ids"]}


def probe(folder: Path) -> bool:
    """Return whether every sampled record is the nearest to its own vector."""
    client = open_folder(folder)
    try:
        names = [collection.name for collection in client.list_collections()]
        return all(_finds_its_records(open_collection(client, name)) for name in names)
    finally:
        close(client)


def _no_answer(url: str, error: Exception) -> VectorIndexUnavailable:
    return VectorIndexUnavailable(f"no Chroma answers at {without_credentials(url)!r}: {error}")


def _settings() -> "Settings":
    from chromadb.config import Settings

    logging.getLogger("chromadb").setLevel(logging.CRITICAL)
    return Settings(anonymized_telemetry=False)


def _metadata(entry: IndexEntry, old: Mapping[str, object]) -> _Metadata:
    # An upsert merges metadata, so a tag that was removed is named with None.
    vector = sha256(array("f", entry.vector).tobytes()).hexdigest()[:32]
    new: _Metadata = {"category": entry.category, "vector": vector}
    return dict.fromkeys(old) | new | {f"tag {tag}": True for tag in entry.tags}


def _conditions(where: PlaybookFilter) -> "Where | None":
    wanted: list[Where] = []
    if where.category is not None:
        wanted.append({"category": sanitize_text(where.category)})
    wanted += [{f"tag {sanitize_text(tag)}": True} for tag in where.tags]
    if not wanted:
        return None
    return wanted[0] if len(wanted) == 1 else {"$and": wanted}


def _finds_its_records(collection: "Collection") -> bool:
    sample = collection.get(limit=SAMPLE, include=["embeddings"])
    if sample["embeddings"] is None:
        return not sample["ids"]
    for embedding in sample["embeddings"]:
        vector = [float(number) for number in embedding]
        found = nearest(collection, vector, PlaybookFilter(), 1)
        if not found or found[0][1] >= 1e-3:
            return False
    return True


if __name__ == "__main__":
    sys.exit(0 if probe(Path(sys.argv[1])) else 1)
