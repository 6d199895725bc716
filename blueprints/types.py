"""A blueprint: a named, ordered list of nodes."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from contracts.errors import BlueprintInvalid
from contracts.run import is_attempt
from nodes.types import Node, inner_nodes, step_names

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(frozen=True)
class Blueprint:
    """A named sequence of nodes, run in order.

    Raises:
        BlueprintInvalid: no nodes, a name that is used twice or has the form of an attempt's name,
            or a blueprint name that cannot be part of a branch name.
    """

    name: str
    description: str
    nodes: Sequence[Node]
    _: KW_ONLY
    options: Mapping[str, str] = field(default_factory=dict)
    """Names that `--set name=value` accepts, with their meaning."""
    egress: Sequence[str] = ()
    """Hosts that the commands need, in addition to those that the operator allows."""
    changes: Sequence[str] = ()
    """Globs on whole paths of protected files that the blueprint is meant to change, such as
    `**/uv.lock`."""
    verdict_later: bool = False
    """Playbooks learn nothing from a successful run until a person says whether it helped."""
    needs_intent: bool = False
    """A run without an intent is refused before it starts."""

    def __post_init__(self) -> None:
        for name in ("nodes", "egress", "changes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not _NAME.fullmatch(self.name):
            raise BlueprintInvalid(
                f"blueprint name {self.name!r} is not usable: lower-case letters, digits and "
                "hyphens only, at most 63, because the branch is named after it"
            )
        if not self.nodes:
            raise BlueprintInvalid(f"blueprint {self.name!r} has no nodes: it needs at least one")
        names = self.all_names()
        counts = Counter((*names, *(name for node in self._all() for name in step_names(node))))
        doubled = [name for name, count in counts.items() if count > 1]
        if doubled:
            raise BlueprintInvalid(
                f"blueprint {self.name!r} uses a node name twice: {', '.join(map(repr, doubled))}; "
                "a step counts too, as 'node/step'"
            )
        # Results of attempts are matched to their step by name.
        reserved = [name for name in names if is_attempt(name)]
        if reserved:
            raise BlueprintInvalid(
                f"blueprint {self.name!r} has a node {reserved[0]!r}: names of this form are "
                "reserved for attempts at steps and fixes"
            )

    def all_names(self) -> list[str]:
        """Return the names of all nodes in order, including nodes inside other nodes."""
        return [node.name for node in self._all()]

    def _all(self) -> list[Node]:
        return [found for node in self.nodes for found in (node, *inner_nodes(node))]
