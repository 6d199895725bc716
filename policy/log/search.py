"""Search of entities: by id, by words, and by their relations to other entities."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from contracts.entity import Entity
from contracts.json import canonical_json
from policy.errors import EntityNotFound
from policy.log.history import History

Neighbours = Callable[[str], Iterable[str]]
"""Returns the entities one step away from an entity."""


def find_entity(history: History, prefix: str) -> str:
    """Return the id of the entity with this prefix, or of the one made by the event with it.

    Raises:
        EntityNotFound: there is none, or more than one.
    """
    found = [name for name in history.entities if name.startswith(prefix)] if prefix else []
    if not found and prefix:
        events = [event for name, event in history.events.items() if name.startswith(prefix)]
        found = [name for event in events for name in event.produces]
    if len(found) != 1:
        count = f"{len(found)} entities have" if found else "no entity or event has"
        raise EntityNotFound(
            f"{count} an id that begins with {prefix!r}; `harness events log` shows ids"
        )
    return found[0]


def search_entities(history: History, text: str, *, limit: int) -> list[Entity]:
    """Return the entities whose content or origin contains every word of `text`, newest first.

    Case is ignored, and a word is also found inside a longer one.
    """
    words = text.casefold().split()
    newest = {name: n for n, event in enumerate(history.in_order()) for name in event.produces}
    order = sorted(history.entities, key=lambda name: (-newest.get(name, -1), name))
    matching = (history.entities[name] for name in order)
    return [entity for entity in matching if _contains(entity, words)][:limit]


@dataclass(frozen=True)
class EntityGraph:
    """Relations between entities: made from, part of, relates to."""

    onward: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """From an entity to those made from it, its parts, and those it relates to."""
    backward: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def neighbours(self, name: str) -> list[str]:
        """Return the entities one step away in either direction."""
        return [*sorted(self.onward[name]), *sorted(self.backward[name])]

    def between(self, start: str, end: str) -> frozenset[str]:
        """Return the entities on any path from start to end, both included."""
        after = within_steps(start, self.onward.__getitem__, steps=-1).keys()
        before = within_steps(end, self.backward.__getitem__, steps=-1).keys()
        return frozenset(after & before)


def entity_graph(history: History) -> EntityGraph:
    """Return the relations that events and entities of this history state."""
    graph = EntityGraph()
    pairs = [
        (source, target)
        for event in history.events.values()
        for source in event.consumes
        for target in event.produces
    ]
    pairs += [(e.part_of, e.id) for e in history.entities.values() if e.part_of is not None]
    relations = (e.consumes for e in history.events.values() if e.kind == "relation")
    pairs += [(ends[0], ends[1]) for ends in relations if len(ends) == 2]
    for source, target in pairs:
        graph.onward[source].add(target)
        graph.backward[target].add(source)
    return graph


def within_steps(start: str, neighbours: Neighbours, *, steps: int = 1) -> dict[str, int]:
    """Return each entity that is at most this many steps away, with its distance.

    A negative number of steps is no limit.
    """
    distances, queue = {start: 0}, deque([start])
    while queue:
        here = queue.popleft()
        if distances[here] == steps:
            continue
        for name in neighbours(here):
            if name not in distances:
                distances[name] = distances[here] + 1
                queue.append(name)
    return distances


def _contains(entity: Entity, words: Sequence[str]) -> bool:
    content = entity.content
    text = content if isinstance(content, str) else canonical_json(content)
    searched = f"{entity.origin}\n{text}".casefold()
    return all(word in searched for word in words)
