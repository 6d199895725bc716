"""The one door to chromadb: clients without telemetry, collections with settings that find all."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
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


class IndexEntry(NamedTuple):
    """One vector and what it can be filtered by."""

    key: int
    vector: Sequence[float]
    category: str
    tags: tuple[str, ...]


class VectorIndexCorrupt(Exception):
    """The index cannot be read or written; it can be made again from the database."""


class VectorIndexUnavailable(Exception):
    """The served Chroma does not answer, or the folder cannot be used."""


class VectorIndexStale(Exception):
    """The index lacks changes that the database holds, or was made from another state of it."""


def refuse_forked_process() -> None:
    """Refuse a process that was forked from one that used Chroma: there every call hangs, also
    on a client of its own, and also when the parent closed its client before.

    Raises:
        VectorsAway: this is such a process.
    """
    if _used_in and os.getpid() not in _used_in:
        raise VectorIndexUnavailable(
            "this process was forked from one that had the vector index open, where Chroma cannot "
            "work: start it as a process of its own"
        )


_used_in: set[int] = set()


@cache
def chroma_errors() -> tuple[type[Exception], ...]:
    """What chromadb raises when it, or its folder, is not well."""
    from chromadb.errors import ChromaError

    # The plain ones: what its Rust half and its client say of their own state. AttributeError
    # comes from its cleaning up after a folder that did not open.
    plain = (AttributeError, KeyError, OSError, RuntimeError, ValueError)
    return (ChromaError, *plain)


def without_credentials(url: str) -> str:
    """The URL as it may be told: what stands before its @ may be a password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


@contextmanager
def translate_http_errors(url: str) -> Iterator[None]:
    """Turn what a Chroma at this URL raises when it is not there into VectorsAway."""
    import httpx

    try:
        yield
    except httpx.HTTPError as error:
        raise VectorIndexUnavailable(
            f"no Chroma answers at {without_credentials(url)!r}: {error}"
        ) from error
    except Exception as error:
        # Plain: what chromadb makes of an answer that is not its own, as that of a proxy.
        if type(error) is not Exception:
            raise
        raise VectorIndexUnavailable(
            f"what answers at {without_credentials(url)!r} is no Chroma: {error}"
        ) from error


def open_folder(folder: Path) -> "ClientAPI":
    """A client on a folder that no other process has open."""
    import chromadb

    _used_in.add(os.getpid())
    return chromadb.PersistentClient(str(folder), settings=_settings())


def close(client: "ClientAPI") -> bool:
    """Let go of a folder; False in a forked process, which cannot."""
    if os.getpid() not in _used_in:
        return False
    from chromadb.api.client import Client

    if isinstance(client, Client):
        client.close()
    return True


def connect(url: str) -> "ClientAPI":
    """A client of `chroma run` at this URL.

    Raises:
        VectorsAway: nobody answers there.
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
    except chroma_errors() as error:  # also what it makes of nobody being there
        raise VectorIndexUnavailable(
            f"no Chroma answers at {without_credentials(url)!r}: {error}"
        ) from error


def open_collection(client: "ClientAPI", name: str) -> "Collection":
    """The collection of this name, made when missing.

    Chroma's own defaults do not find 1 in 1,000 clustered records by their own vectors.
    """
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


def upsert(into: "Collection", entries: Sequence[IndexEntry]) -> None:
    """Write entries, those of the same key over what there was.

    Never by deleting first: records that are added again after that get lost in Chroma's graph.
    """
    ids = [str(entry.key) for entry in entries]
    there = into.get(ids=ids, include=["metadatas"])
    old = dict(zip(there["ids"], there["metadatas"] or (), strict=False))
    into.upsert(
        ids=ids,
        embeddings=[entry.vector for entry in entries],
        metadatas=[_metadata(entry, old.get(str(entry.key)) or {}) for entry in entries],
    )


def nearest(
    among: "Collection", vector: Sequence[float], where: PlaybookFilter, limit: int
) -> list[tuple[int, float]]:
    """Keys and cosine distances, the nearest first."""
    found = among.query(
        query_embeddings=[vector],
        n_results=limit,
        where=_where(where),
        include=["distances"],
    )
    distances = (found["distances"] or [[]])[0]
    return [(int(key), float(d)) for key, d in zip(found["ids"][0], distances, strict=True)]


def last_change(of: "Collection") -> int:
    """The number of the last change that was brought into it; 0 for a new one."""
    number = (of.metadata or {}).get("seen", 0)
    return number if isinstance(number, int) else 0


def set_last_change(into: "Collection", number: int) -> None:
    """Tell that it holds every change up to this number."""
    into.modify(metadata={"seen": number})


def keys(of: "Collection") -> set[int]:
    """Every key that the collection holds."""
    return {int(key) for key in of.get(include=[])["ids"]}


def _settings() -> "Settings":
    from chromadb.config import Settings

    logging.getLogger("chromadb").setLevel(logging.CRITICAL)
    return Settings(anonymized_telemetry=False)


def _metadata(entry: IndexEntry, old: Mapping[str, object]) -> dict[str, str | bool | None]:
    """What an entry is filtered by; upserting merges, so what is gone must be named as None."""
    new: dict[str, str | bool | None] = {"category": entry.category}
    return dict.fromkeys(old) | new | {f"tag {tag}": True for tag in entry.tags}


def _where(where: PlaybookFilter) -> "Where | None":
    wanted: list[Where] = []
    if where.category is not None:
        wanted.append({"category": sanitize_text(where.category)})
    wanted += [{f"tag {sanitize_text(tag)}": True} for tag in where.tags]
    if not wanted:
        return None
    return wanted[0] if len(wanted) == 1 else {"$and": wanted}
