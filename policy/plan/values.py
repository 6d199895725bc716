"""Labelled values of a plan's run, and all entities that they were made from."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from contracts.entity import EMPTY_LABEL, Entity, Label, derive


class RunValues:
    """Values by the names that references use; thread-safe.

    A place, such as the workspace, only gains tags. A step that works in a place has exclusive
    access to it, so that no decision is made on a label that is about to change. `record` is
    called with each new entity and its name.
    """

    def __init__(
        self,
        values: Mapping[str, Entity],
        entities: Iterable[Entity] = (),
        *,
        record: Callable[[Entity, str | None], None],
    ) -> None:
        self._record = record
        for name, entity in values.items():
            record(entity, name)
        self._values = dict(values)
        self._entities = {entity.id: entity for entity in (*entities, *values.values())}
        self._lock = threading.Lock()
        places = (name for name in values if name.startswith("place."))
        self._place_locks = {name: threading.RLock() for name in places}

    def values(self) -> Mapping[str, Entity]:
        """Return a snapshot of all values by name."""
        with self._lock:
            return MappingProxyType(dict(self._values))

    def entities(self) -> Mapping[str, Entity]:
        """Return a snapshot of all entities by id."""
        with self._lock:
            return MappingProxyType(dict(self._entities))

    def add(self, name: str | None, entity: Entity) -> None:
        """Record and store an entity, under a name if references may use it."""
        self._record(entity, name)
        with self._lock:
            self._entities[entity.id] = entity
            if name is not None:
                self._values[name] = entity

    @contextmanager
    def exclusive(self, place: str | None) -> Iterator[None]:
        """Hold the lock of a place, if there is one."""
        lock = self._place_locks.get(f"place.{place}")
        if lock is None:
            yield
            return
        with lock:
            yield

    def add_to_place(
        self, place: str, sources: Iterable[Entity], *, origin: str, extra: Label = EMPTY_LABEL
    ) -> None:
        """Add the tags of everything that is written to the place, and the tags of `extra`."""
        name = f"place.{place}"
        before = self.values()[name]
        new = [e for e in sources if e.id != before.id and not before.label.covers(e.label)]
        if new or not before.label.covers(extra):
            self.add(
                name, derive(before.content, origin=origin, sources=[before, *new], extra=extra)
            )
