"""What is remembered between calls: for a while, and only while nobody writes."""

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class _Kept(NamedTuple, Generic[V]):
    value: V
    until: datetime


class Remembered(Generic[K, V]):
    """At most `most` values, each for `lasts` at the longest. Threads may share it.

    A value belongs to the generation that was read before it was made. As soon as any other
    generation is seen, everything is forgotten.
    """

    def __init__(self, *, lasts: timedelta, most: int, clock: Callable[[], datetime]) -> None:
        self._lasts = lasts
        self._most = most
        self._clock = clock
        self._lock = Lock()
        self._generation = -1
        self._kept: OrderedDict[K, _Kept[V]] = OrderedDict()

    def get(self, generation: int, key: K) -> V | None:
        """The value that was put for this key in this generation, unless its time is over."""
        with self._lock:
            found = self._of(generation).get(key)
            if found is None or found.until <= self._clock():
                return None
            self._kept.move_to_end(key)
            return found.value

    def put(self, generation: int, key: K, value: V, *, until: datetime | None = None) -> V:
        """Remember the value, not past `until`; gives it back."""
        ends = self._clock() + self._lasts
        with self._lock:
            kept = self._of(generation)
            kept[key] = _Kept(value, min(ends, until) if until else ends)
            kept.move_to_end(key)
            while len(kept) > self._most:
                kept.popitem(last=False)
        return value

    def _of(self, generation: int) -> "OrderedDict[K, _Kept[V]]":
        if generation != self._generation:
            self._kept.clear()
            self._generation = generation
        return self._kept
