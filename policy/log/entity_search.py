"""Finds entities in the database: by what they mean, and by who made what of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import CompoundSelect, Connection, Engine, String, bindparam, insert, select, union

from contracts.chat import Embed
from contracts.entity import Entity
from contracts.json import canonical
from policy.database import reading, writing
from policy.errors import EntityNotFound
from policy.log.events import entity_of
from policy.log.rows import slices
from policy.tables import entities, entity_edges, entity_vectors, event_entities

_Floats = NDArray[np.float32]

_AT_ONCE = 64
"""Texts that are embedded in one go."""
_TEXT = 2_000
"""Characters of an entity that its vector is made of."""


@dataclass(frozen=True, kw_only=True)
class NearEntity:
    """An entity, and how near it is to what was asked: 0 is the same, 2 the opposite."""

    entity: Entity
    distance: float


@dataclass(frozen=True, kw_only=True)
class EntitySearch:
    """Entities of one database. `model` is the name that `embed`'s vectors are kept under."""

    engine: Engine
    embed: Embed
    model: str

    def by_meaning(self, text: str, *, limit: int = 10) -> list[NearEntity]:
        """The nearest entities, the nearest first; those without a vector get one first.

        Raises:
            ModelUnavailable: nothing can be embedded.
        """
        self.embed_new()
        with reading(self.engine) as connection:
            names, vectors = _vectors(connection, self.model)
            if not names:
                return []
            asked = _unit(np.asarray([self.embed([text])[0]], dtype=np.float32))[0]
            distances = 1 - vectors @ asked
            nearest = np.argsort(distances, kind="stable")[:limit]
            there = _entities(connection, [names[place] for place in nearest])
        return [
            NearEntity(entity=there[names[place]], distance=float(distances[place]))
            for place in nearest
        ]

    def embed_new(self) -> int:
        """Make vectors for the entities that have none of this model; gives their number."""
        with reading(self.engine) as connection:
            has = select(entity_vectors.c.entity).where(entity_vectors.c.model == self.model)
            query = select(entities.c.id, entities.c.line).where(entities.c.id.not_in(has))
            new = [(row[0], _text(entity_of(row[1]))) for row in connection.execute(query)]
        for start in range(0, len(new), _AT_ONCE):
            some = new[start : start + _AT_ONCE]
            made = self.embed([text for _, text in some])
            with writing(self.engine) as connection:
                _keep(connection, self.model, [name for name, _ in some], made)
        return len(new)


def entity_id_of(engine: Engine, prefix: str) -> str:
    """The id of the entity that begins so.

    Raises:
        EntityNotFound: none, or several.
    """
    query = select(entities.c.id).where(entities.c.id.startswith(prefix, autoescape=True)).limit(2)
    with reading(engine) as connection:
        found = [row[0] for row in connection.execute(query)] if prefix else []
    if len(found) != 1:
        many = "more than one entity begins" if found else "there is no entity"
        raise EntityNotFound(f"{many} with {prefix!r}: `harness events log --json` names them")
    return str(found[0])


def neighbours(engine: Engine) -> Callable[[str], list[str]]:
    """Where one gets from an entity in one step, either way: for `policy.log.find`."""
    ahead, behind = onward(engine), backward(engine)
    return lambda name: [*ahead(name), *behind(name)]


def onward(engine: Engine) -> Callable[[str], list[str]]:
    """What was made of an entity, its parts, and what it relates to."""
    used, made = event_entities.alias(), event_entities.alias()
    here = bindparam("here", type_=String)
    query = union(
        select(made.c.entity)
        .join(used, used.c.event == made.c.event)
        .where(used.c.role == "consumes", used.c.entity == here, made.c.role == "produces"),
        select(entity_edges.c.source).where(
            entity_edges.c.kind == "part_of", entity_edges.c.target == here
        ),
        select(entity_edges.c.target).where(
            entity_edges.c.kind == "relates_to", entity_edges.c.source == here
        ),
    )
    return lambda name: _ids(engine, query, name)


def backward(engine: Engine) -> Callable[[str], list[str]]:
    """What an entity was made of, what it is part of, and what relates to it."""
    used, made = event_entities.alias(), event_entities.alias()
    here = bindparam("here", type_=String)
    query = union(
        select(used.c.entity)
        .join(made, used.c.event == made.c.event)
        .where(made.c.role == "produces", made.c.entity == here, used.c.role == "consumes"),
        select(entity_edges.c.target).where(
            entity_edges.c.kind == "part_of", entity_edges.c.source == here
        ),
        select(entity_edges.c.source).where(
            entity_edges.c.kind == "relates_to", entity_edges.c.target == here
        ),
    )
    return lambda name: _ids(engine, query, name)


def _ids(engine: Engine, query: CompoundSelect[tuple[str]], name: str) -> list[str]:
    with reading(engine) as connection:
        return sorted(row[0] for row in connection.execute(query, {"here": name}))


def _vectors(connection: Connection, model: str) -> tuple[list[str], _Floats]:
    """All vectors of the model, of one length each; those of another length are left out."""
    query = select(entity_vectors.c.entity, entity_vectors.c.vector, entity_vectors.c.dimensions)
    rows = connection.execute(query.where(entity_vectors.c.model == model)).all()
    length = rows[-1].dimensions if rows else 0
    kept = [row for row in rows if row.dimensions == length]
    joined = b"".join(row.vector for row in kept)
    vectors = np.frombuffer(joined, dtype="<f4").reshape(len(kept), length)
    return [row.entity for row in kept], vectors


def _keep(
    connection: Connection, model: str, names: Sequence[str], made: Sequence[Sequence[float]]
) -> None:
    known = select(entity_vectors.c.entity).where(
        entity_vectors.c.model == model, entity_vectors.c.entity.in_(names)
    )
    there = {row[0] for row in connection.execute(known)}
    units = _unit(np.asarray(made, dtype=np.float32))
    rows = [
        {"entity": name, "model": model, "dimensions": len(unit), "vector": unit.tobytes()}
        for name, unit in zip(names, units, strict=True)
        if name not in there
    ]
    if rows:
        connection.execute(insert(entity_vectors), rows)


def _entities(connection: Connection, names: Iterable[str]) -> Mapping[str, Entity]:
    return {
        row[0]: entity_of(row[1])
        for some in slices(names)
        for row in connection.execute(
            select(entities.c.id, entities.c.line).where(entities.c.id.in_(some))
        )
    }


def _text(entity: Entity) -> str:
    """What an entity says, for a model that makes vectors."""
    content = entity.content
    said = content.get("text") if isinstance(content, Mapping) else content
    text = said if isinstance(said, str) else canonical(content)
    return text[:_TEXT] or entity.origin


def _unit(vectors: _Floats) -> _Floats:
    """The same directions with length 1; a vector of zeros stays one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths), dtype="<f4")
