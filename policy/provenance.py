"""The way that a tag took to where it was found."""

from collections.abc import Mapping

from contracts.entity import Entity


def provenance(
    entity: Entity, tags: frozenset[str], entities: Mapping[str, Entity]
) -> tuple[str, ...]:
    """The origins by which one of these tags came to the entity, the first one first."""
    way, at, seen = [entity.origin], entity, {entity.id}
    while True:
        sources = (entities[source] for source in at.sources if source in entities)
        carrying = (one for one in sources if one.id not in seen and _carries(one, tags))
        before = next(carrying, None)
        if before is None:
            return tuple(reversed(way))
        way.append(before.origin)
        seen.add(before.id)
        at = before


def _carries(entity: Entity, tags: frozenset[str]) -> bool:
    return bool((entity.label.caps | entity.label.taint) & tags)
