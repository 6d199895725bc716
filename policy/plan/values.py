"""What a run of a plan holds so far: labelled values, and everything that they are made of."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from contracts.entity import EMPTY_LABEL, Entity, Label, derive


class RunValues:
    """Values under the names that references use. Several threads may use it.

    What a place holds only gains tags: whoever works in one has it alone meanwhile, so that
    nothing is checked on labels that are about to change.
    """

    def __init__(
        self,
        values: Mapping[str, Entity],
        entities: Iterable[Entity] = (),
        *,
        note: Callable[[Entity, str | None], None],
    ) -> None:
        self._note = note
        for name, entity in values.items():
            note(entity, name)
        self._values = dict(values)
        self._entities = {entity.id: entity for entity in (*entities, *values.values())}
        self._lock = threading.Lock()
        places = (name for name in values if name.startswith("place."))
        self._places = {name: threading.RLock() for name in places}

    def values(self) -> Mapping[str, Entity]:
        """All values as they are now."""
        with self._lock:
            return MappingProxyType(dict(self._values))

    def entities(self) -> Mapping[str, Entity]:
        """All entities as they are now, by their ids."""
        with self._lock:
            return MappingProxyType(dict(self._entities))

    def add(self, name: str | None, entity: Entity) -> None:
        """Hold an entity and note it, under a name if references are to find it."""
        self._note(entity, name)
        with self._lock:
            self._entities[entity.id] = entity
            if name is not None:
                self._values[name] = entity

    @contextmanager
    def exclusive(self, place: str | None) -> Iterator[None]:
        """Nobody else works in the place until the block ends; None is no place."""
        lock = self._places.get(f"place.{place}")
        if lock is None:
            yield
            return
        with lock:
            yield

    def add_to_place(
        self, place: str, made_of: Iterable[Entity], *, origin: str, also: Label = EMPTY_LABEL
    ) -> None:
        """Let the place carry the tags of all that goes into it, and `also` these."""
        name = f"place.{place}"
        before = self.values()[name]
        new = [e for e in made_of if e.id != before.id and not before.label.covers(e.label)]
        if new or not before.label.covers(also):
            self.add(
                name, derive(before.content, origin=origin, sources=[before, *new], extra=also)
            )
