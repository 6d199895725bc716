"""Labelled content: an entity carries its restrictions and its untrusted origins."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from contracts.json import Json, deep_freeze, json_digest


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """Restrictions (`caps`) and untrusted origins (`taint`) of a piece of content.

    Both sets only grow: content that is derived from two entities has the tags of both.
    A tag `share_with:bob` restricts readers to bob, so each such tag leaves fewer readers. Any
    other tag in `caps`, such as `pii`, must be released before the content leaves. `taint` holds
    origins such as `repo:notes`; an empty set means trusted.
    """

    caps: frozenset[str] = frozenset()
    taint: frozenset[str] = frozenset()

    def join(self, other: "Label") -> "Label":
        """Return the label of content that is derived from both."""
        return Label(caps=self.caps | other.caps, taint=self.taint | other.taint)

    def covers(self, other: "Label") -> bool:
        """Return True if this label contains every tag of the other."""
        return other.caps <= self.caps and other.taint <= self.taint


EMPTY_LABEL = Label()
"""Unrestricted and trusted: the user's own words, and content derived from them alone."""


def join_labels(labels: Iterable[Label]) -> Label:
    """Return the label of content that is derived from all of these."""
    joined = EMPTY_LABEL
    for label in labels:
        joined = joined.join(label)
    return joined


@dataclass(frozen=True, kw_only=True)
class Entity:
    """Immutable content with its label. Endorsing an entity makes a new one.

    `origin` names the producer (`step2`, `read_file notes/q2.md`, `prompt`). `sources` are the
    ids of all entities that the producer could see. `part_of` is the id of the whole.
    """

    content: Json
    label: Label
    origin: str
    sources: tuple[str, ...] = ()
    part_of: str | None = None
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", deep_freeze(self.content))
        object.__setattr__(self, "id", json_digest(self.as_json()))

    def as_json(self) -> dict[str, Json]:
        """Return all fields but the id, which is the digest of this object."""
        return {
            "content": self.content,
            "caps": sorted(self.label.caps),
            "taint": sorted(self.label.taint),
            "origin": self.origin,
            "sources": self.sources,
            "part_of": self.part_of,
        }


def derive(
    content: Json, *, origin: str, sources: Iterable[Entity], extra: Label = EMPTY_LABEL
) -> Entity:
    """Return a new entity with the joined labels of its sources and `extra`."""
    parents = tuple(sources)
    label = join_labels((*(parent.label for parent in parents), extra))
    return Entity(content=content, label=label, origin=origin, sources=tuple(p.id for p in parents))


def endorse(entity: Entity, *, by: str) -> Entity:
    """Return a new entity with the same content and no taint, after a person's approval."""
    return Entity(
        content=entity.content,
        label=Label(caps=entity.label.caps),
        origin=f"endorsed by {by}",
        sources=(entity.id,),
        part_of=entity.part_of,
    )
