"""The vector index: Chroma, in a folder of ours or served. Derived: it can always be made again.

Chroma's folder is damaged when two processes have it open and one writes. So a folder has one
lock for every operation, and a generation that each write changes: whoever finds another
generation than they left opens Chroma again before they look. A mark that one left who died of
a write, or of the first look after opening, makes the next one doubt the folder;
`memory.vectors.chroma_probe` then tries it in a process of its own, because a damaged one can
kill the process. A process that was forked from one with an open index has none and searches by
words; it has to end by `os._exit`, as multiprocessing's do.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from memory.types import PlaybookFilter
from memory.vectors import chroma
from memory.vectors.chroma import IndexEntry, VectorIndexCorrupt, VectorIndexStale
from memory.vectors.vector_folder import VectorFolder, is_intact

if TYPE_CHECKING:
    from chromadb import Collection
    from chromadb.api import ClientAPI

    Part = Callable[[str], Collection]


class IndexUpdate(NamedTuple):
    """What is to be written: entries where they belong, and the keys that are gone."""

    live: Sequence[IndexEntry]
    archived: Sequence[IndexEntry] = ()
    removed: Sequence[int] = ()
    last_change: int = 0
    """Of the last change in it."""


class VectorIndex(Protocol):
    """Where vectors are searched. Every method may raise VectorsBroken or VectorsAway."""

    def last_change(self) -> int:
        """The number of the last change that was written; 0 for what is new."""
        ...

    def write(self, batch: IndexUpdate) -> None:
        """Write what changed, and up to which number that is."""
        ...

    def nearest(
        self,
        vector: Sequence[float],
        where: PlaybookFilter,
        limit: int,
        *,
        expected_change: int | None = None,
    ) -> list[tuple[int, float]]:
        """Keys and cosine distances, the nearest first.

        Raises:
            VectorsBehind: what was seen is not what happened up to `number`.
        """
        ...

    def keys(self) -> tuple[set[int], set[int]]:
        """All keys: live ones, archived ones."""
        ...

    def is_intact(self) -> bool:
        """Whether it can be opened; tried in a process of its own where that could end ours."""
        ...

    def drop(self, *, damaged: bool) -> None:
        """Forget every vector of this store; where it is damaged, all that lies beside them."""
        ...

    def close(self) -> None:
        """Let go of the client; the next call opens another."""
        ...


class ServedVectorIndex:
    """Vectors in a `chroma run` at a URL. It may be shared by processes and hosts."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._client: ClientAPI | None = None

    def last_change(self) -> int:
        with self._answering():
            return chroma.last_change(_named(self._open(), self._name)("live"))

    def write(self, batch: IndexUpdate) -> None:
        with self._answering():
            _write(_named(self._open(), self._name), batch)

    def nearest(
        self,
        vector: Sequence[float],
        where: PlaybookFilter,
        limit: int,
        *,
        expected_change: int | None = None,
    ) -> list[tuple[int, float]]:
        with self._answering():
            return _nearest(_named(self._open(), self._name), vector, where, limit, expected_change)

    def keys(self) -> tuple[set[int], set[int]]:
        with self._answering():
            return _keys(_named(self._open(), self._name))

    def is_intact(self) -> bool:
        return True  # it lies in another process

    def drop(self, *, damaged: bool) -> None:
        del damaged  # what others keep there is not ours to judge
        with self._answering():
            _drop(self._open(), self._name)

    def close(self) -> None:
        self._client = None

    @contextmanager
    def _answering(self) -> Iterator[None]:
        with _named_errors(), chroma.translate_http_errors(self._url):
            yield

    def _open(self) -> "ClientAPI":
        chroma.refuse_forked_process()
        if self._client is None:
            self._client = chroma.connect(self._url)
        return self._client


class FolderVectorIndex:
    """Vectors in a folder, correct under many threads and processes. Made at first use."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = VectorFolder(folder)
        self._name = name
        self._client: ClientAPI | None = None
        self._parts: dict[str, Collection] = {}
        self._seen = ""

    def last_change(self) -> int:
        with self._alone() as client:
            return chroma.last_change(self._named(client)("live"))

    def write(self, batch: IndexUpdate) -> None:
        with self._alone(writes=True) as client:
            _write(self._named(client), batch)

    def nearest(
        self,
        vector: Sequence[float],
        where: PlaybookFilter,
        limit: int,
        *,
        expected_change: int | None = None,
    ) -> list[tuple[int, float]]:
        with self._alone() as client:
            return _nearest(self._named(client), vector, where, limit, expected_change)

    def keys(self) -> tuple[set[int], set[int]]:
        with self._alone() as client:
            return _keys(self._named(client))

    def is_intact(self) -> bool:
        chroma.refuse_forked_process()
        with self._folder.locked():
            return not self._folder.has_graph() or self._is_sound()

    def drop(self, *, damaged: bool) -> None:
        """Remove our collections; the folder's whole contents where they are not to be trusted."""
        if not damaged:
            with suppress(VectorIndexCorrupt), self._alone(writes=True) as client:
                _drop(client, self._name)
                self._parts = {}
                return
        with self._folder.locked():
            self._start_anew()

    def close(self) -> None:
        self._parts = {}
        # A forked process keeps what it inherited: to let go of it hangs as well.
        if self._client is not None and chroma.close(self._client):
            self._client = None

    def _named(self, client: "ClientAPI") -> "Part":
        """The collections, asked for once a client: that takes as long as a search."""

        def part(name: str) -> "Collection":
            if name not in self._parts:
                self._parts[name] = _named(client, self._name)(name)
            return self._parts[name]

        return part

    @contextmanager
    def _alone(self, *, writes: bool = False) -> Iterator["ClientAPI"]:
        chroma.refuse_forked_process()
        with self._folder.locked(), _named_errors(), ExitStack() as after:
            if self._folder.is_suspect and not self._is_sound():
                self._start_anew()
                raise VectorIndexCorrupt(
                    f"the vector index in {self._folder.path} was left damaged"
                )
            generation = self._folder.generation
            opens = self._client is None or generation != self._seen
            if writes or opens:
                self._folder.mark_suspect()
            if opens and not writes:  # a write that fails leaves the mark, a read only when it dies
                after.callback(self._folder.clear_suspicion)
            client = self._open(generation) if opens or self._client is None else self._client
            if writes:
                self._seen = self._folder.new_generation()
            yield client
            if writes:
                self._folder.clear_suspicion()

    def _open(self, generation: str) -> "ClientAPI":
        self.close()
        self._client = chroma.open_folder(self._folder.data)
        self._seen = generation
        return self._client

    def _is_sound(self) -> bool:
        self.close()
        return is_intact(self._folder.data)

    def _start_anew(self) -> None:
        self.close()
        self._seen = self._folder.discard_data()


@contextmanager
def _named_errors() -> Iterator[None]:
    try:
        yield
    except chroma.chroma_errors() as error:
        raise VectorIndexCorrupt(f"{type(error).__name__}: {error}") from error


def _named(client: "ClientAPI", name: str) -> "Part":
    return lambda part: chroma.open_collection(client, f"{name}-{part}")


def _write(named: "Part", batch: IndexUpdate) -> None:
    live, archived = batch.live, batch.archived
    for entries, others, part in ((live, archived, "live"), (archived, live, "archived")):
        into = named(part)
        leaving = [*batch.removed, *(entry.key for entry in others)]
        for start in range(0, len(leaving), chroma.WRITE_BATCH):
            into.delete(ids=[str(key) for key in leaving[start : start + chroma.WRITE_BATCH]])
        for start in range(0, len(entries), chroma.WRITE_BATCH):
            chroma.upsert(into, entries[start : start + chroma.WRITE_BATCH])
    chroma.set_last_change(named("live"), batch.last_change)


def _nearest(
    named: "Part", vector: Sequence[float], where: PlaybookFilter, limit: int, number: int | None
) -> list[tuple[int, float]]:
    if number is not None and (seen := chroma.last_change(named("live"))) != number:
        raise VectorIndexStale(f"brought up to change {seen}, not {number}")
    parts = ("live", "archived") if where.archived else ("live",)
    found = [pair for part in parts for pair in chroma.nearest(named(part), vector, where, limit)]
    return sorted(found, key=lambda pair: (pair[1], pair[0]))[:limit]


def _keys(named: "Part") -> tuple[set[int], set[int]]:
    return chroma.keys(named("live")), chroma.keys(named("archived"))


def _drop(client: "ClientAPI", name: str) -> None:
    known = {collection.name for collection in client.list_collections()}
    for part in ("live", "archived"):
        if f"{name}-{part}" in known:
            client.delete_collection(f"{name}-{part}")
