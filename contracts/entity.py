"""A piece of content and its label: where it may go, and which untrusted places it came from."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from contracts.json import Json, deep_freeze, json_digest


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """Both sets only grow: what is made from two things carries the tags of both.

    `caps` restrict: `share_with:bob` says that only bob may get it, so two such tags leave
    fewer readers than one; any other tag, such as `pii`, needs a release. `taint` names
    untrusted origins, such as `repo:notes`; empty means trusted.
    """

    caps: frozenset[str] = frozenset()
    taint: frozenset[str] = frozenset()

    def join(self, other: "Label") -> "Label":
        """The label of whatever is made from both."""
        return Label(caps=self.caps | other.caps, taint=self.taint | other.taint)

    def covers(self, other: "Label") -> bool:
        """True when every tag of the other is here too."""
        return other.caps <= self.caps and other.taint <= self.taint


EMPTY_LABEL = Label()
"""No restriction, no untrusted origin: what the user said, and what is made from that alone."""


def join_labels(labels: Iterable[Label]) -> Label:
    """The label of whatever is made from all of these; of nothing, the clean one."""
    found = EMPTY_LABEL
    for label in labels:
        found = found.join(label)
    return found


@dataclass(frozen=True, kw_only=True)
class Entity:
    """Content that somebody made, said or read. Nothing changes it: endorsing makes a new one.

    `origin` says who made it (`step2`, `read_file notes/q2.md`, `prompt`), `sources` are the
    ids of everything that was in view when it was made, `part_of` is the id of the whole.
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
        """All that the entity is; its id is the digest of this."""
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
    """A new entity made from these: it inherits all their tags, and `also` those given."""
    sources = tuple(sources)
    label = join_labels((*(source.label for source in sources), extra))
    return Entity(content=content, label=label, origin=origin, sources=tuple(s.id for s in sources))


def endorse(entity: Entity, *, by: str) -> Entity:
    """The same content without taint, as a new entity: somebody looked at it and vouches for it."""
    return Entity(
        content=entity.content,
        label=Label(caps=entity.label.caps),
        origin=f"endorsed by {by}",
        sources=(entity.id,),
        part_of=entity.part_of,
    )
