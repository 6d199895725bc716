"""The vector index of playbooks: Chroma in a folder of the home, or a Chroma server.

It is derived data: every vector is in the database too, so the index can be rebuilt at any time.

Chroma damages its folder if one process writes while another has it open. So every operation
locks the folder, and every write changes the folder's generation: a process that finds another
generation than at its last operation opens Chroma again. A process that dies during a write or
while opening leaves a mark, because it may have left a folder that crashes the next one that opens
it. A process that finds the mark discards the folder, which is then made again.
"""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy import Engine, select

from contracts.files import write_atomically
from memory.database import acquire_lock, read_transaction
from memory.tables import store_ids
from memory.types import PlaybookFilter
from memory.vectors import chroma
from memory.vectors.chroma import (
    IndexEntry,
    VectorIndexCorrupt,
    VectorIndexStale,
    VectorIndexUnavailable,
)

if TYPE_CHECKING:
    from chromadb import Collection
    from chromadb.api import ClientAPI

LOCK_TIMEOUT_S = 10.0

_PARTS = ("live", "taught")


class VectorIndex(ABC):
    """Vectors of one store by one model, of all playbooks that are not archived.

    Those with lessons are in a second collection as well: a filter on all takes three times as
    long as a search in a small one.

    Every method can raise VectorIndexCorrupt and VectorIndexUnavailable.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._client: ClientAPI | None = None

    def last_change(self) -> int:
        """Return the number of the last change that was written; 0 for a new index."""
        with self._open() as client:
            return chroma.last_change(self._collection(client, "live"))

    def write(
        self, keys: Sequence[int], entries: Sequence[IndexEntry] = (), last_change: int = 0
    ) -> None:
        """Make `entries` the only ones of these playbooks, and store the number of the change."""
        with self._open(writes=True) as client:
            live, taught = (self._collection(client, part) for part in _PARTS)
            chroma.write(live, entries, keys)
            chroma.write(taught, [one for one in entries if one.taught], keys)
            chroma.set_last_change(live, last_change)

    def nearest(
        self,
        vector: Sequence[float],
        where: PlaybookFilter,
        limit: int,
        *,
        expected_change: int | None = None,
    ) -> list[tuple[int, float]]:
        """Return keys and cosine distances, the nearest first.

        Raises:
            VectorIndexStale: the last change in the index is not `expected_change`.
        """
        with self._open() as client:
            live = self._collection(client, "live")
            last = chroma.last_change(live)
            if expected_change not in (None, last):
                raise VectorIndexStale(f"at change {last}, not {expected_change}")
            searched = self._collection(client, "taught") if where.taught else live
            found = chroma.nearest(searched, vector, where, limit)
        return sorted(found, key=lambda pair: (pair[1], pair[0]))

    def keys(self) -> set[int]:
        """Return the keys of all playbooks."""
        with self._open() as client:
            return chroma.keys(self._collection(client, "live"))

    @abstractmethod
    def drop(self, *, everything: bool) -> None:
        """Delete the vectors of this store and model, or all that are in the folder.

        All: those of earlier models and versions, and what is damaged. They are made again.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the client; the next call opens another."""

    @abstractmethod
    def _open(self, *, writes: bool = False) -> AbstractContextManager["ClientAPI"]:
        """Yield a client, with chromadb's errors translated."""

    def _collection(self, client: "ClientAPI", part: str) -> "Collection":
        return chroma.open_collection(client, f"{self._name}-{part}")

    def _delete_collections(self, client: "ClientAPI") -> None:
        existing = {collection.name for collection in client.list_collections()}
        for name in existing & {f"{self._name}-{part}" for part in _PARTS}:
            client.delete_collection(name)


class ServedVectorIndex(VectorIndex):
    """A vector index on a `chroma run` server, which many processes and hosts may share."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(name)
        self._url = url

    def drop(self, *, everything: bool) -> None:
        del everything  # the server's other data is not ours to delete
        with self._open() as client:
            self._delete_collections(client)

    def close(self) -> None:
        self._client = None

    @contextmanager
    def _open(self, *, writes: bool = False) -> Iterator["ClientAPI"]:
        del writes  # the server lets all its clients write
        chroma.refuse_forked_process()
        with _translated_errors(), chroma.translate_http_errors(self._url):
            if self._client is None:
                self._client = chroma.connect(self._url)
            yield self._client


class FolderVectorIndex(VectorIndex):
    """A vector index in a folder, created on first use. Threads and processes may share it.

    The file `current` names Chroma's own folder, every write replaces the text of `generation`, and
    `writing` exists while a process opens or writes Chroma's folder.
    """

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(name)
        self._folder = folder
        self._mark = folder / "writing"
        self._generation = ""

    def drop(self, *, everything: bool) -> None:
        if not everything:
            with suppress(VectorIndexCorrupt), self._open(writes=True) as client:
                self._delete_collections(client)
                return
        with self._locked():
            self._discard_data()

    def close(self) -> None:
        # In a forked process closing hangs, so it keeps the client that it inherited.
        if self._client is not None and chroma.close(self._client):
            self._client = None

    @contextmanager
    def _open(self, *, writes: bool = False) -> Iterator["ClientAPI"]:
        chroma.refuse_forked_process()
        chroma.import_library()
        with self._locked(), _translated_errors(), ExitStack() as after:
            if self._mark.exists():
                self._discard_data()
                raise VectorIndexCorrupt(f"a process died while it used {self._folder}")
            if self._generation != self._read("generation"):
                self.close()
            if writes or self._client is None:
                with _translated_write_errors():
                    self._mark.touch()
                if not writes:  # a failed write leaves the mark, a failed read does not
                    after.callback(self._clear_mark)
            if self._client is None:
                self._client = chroma.open_folder(self._data)
                self._generation = self._read("generation")
            if writes:  # before the write, so that a writer that dies is noticed too
                self._new_generation()
            yield self._client
            if writes:
                self._clear_mark()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep all other threads and processes out until the block ends; create the folder."""
        with ExitStack() as held:
            with _translated_write_errors():
                self._folder.mkdir(parents=True, exist_ok=True)
                lock = held.enter_context((self._folder / "lock").open("w"))
                if not acquire_lock(lock, LOCK_TIMEOUT_S):
                    raise VectorIndexUnavailable(
                        f"another process has locked the vector index in {self._folder} for "
                        f"{LOCK_TIMEOUT_S:g} s: end it if it hangs or was stopped"
                    )
            yield

    @property
    def _data(self) -> Path:
        """Chroma's own folder."""
        return self._folder / (self._read("current") or "chroma")

    def _read(self, name: str) -> str:
        path = self._folder / name
        return path.read_text() if path.exists() else ""

    def _new_generation(self) -> None:
        self._generation = uuid4().hex
        with _translated_write_errors():
            write_atomically(self._folder / "generation", self._generation)

    def _clear_mark(self) -> None:
        with _translated_write_errors():
            self._mark.unlink(missing_ok=True)

    def _discard_data(self) -> None:
        self.close()
        shutil.rmtree(self._data, ignore_errors=True)
        with _translated_write_errors():
            # A new name: chromadb remembers a folder that it failed to open, and fails again.
            write_atomically(self._folder / "current", f"chroma-{uuid4().hex[:8]}")
        self._new_generation()
        self._clear_mark()


def index_name(engine: Engine, model: str, *, served: bool) -> str:
    """Return the name under which an index keeps the vectors of this store and model.

    A copied home brings its folder along, so a copied store keeps the name there. On a server,
    where copies of a store would overwrite each other's vectors, its location is part of the name.
    """
    with read_transaction(engine) as connection:
        store_id = connection.execute(select(store_ids.c.id)).scalar_one()
    location = ""
    if served and engine.dialect.name == "sqlite":
        location = str(Path(engine.url.database or "").resolve())
    elif served:
        host = engine.url.host or engine.url.query.get("host")  # the latter is a socket's folder
        location = f"{host}:{engine.url.port}/{engine.url.database}"
    # The number changes with the form of the records, so that an old index is built anew.
    return sha256(f"{store_id}|{location}|{model}|3".encode()).hexdigest()[:24]


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except chroma.chroma_errors() as error:
        raise VectorIndexCorrupt(f"{type(error).__name__}: {error}") from error


@contextmanager
def _translated_write_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise VectorIndexUnavailable(f"the vector index cannot be written: {error}") from error
