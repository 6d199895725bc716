"""What a blueprint is: a named, ordered list of nodes."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from contracts.errors import BlueprintInvalid
from contracts.names import is_attempt
from nodes.types import Node, inner_nodes, step_names

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """A named sequence of nodes, run in order.

    `options` are the names that `--set name=value` may give, with what each means. `egress`
    are hosts that its commands must reach, besides those the operator allows. `changes` are
    patterns of protected files, such as `*.lock`, that it is there to change. With
    `verdict_later` a success waits for a person to say whether it was one. With `needs_intent`
    it is not begun without one.

    Raises:
        BlueprintInvalid: no nodes, a name used twice, one that attempts have, or one that cannot
            be a branch.
    """

    name: str
    description: str
    nodes: Sequence[Node]
    options: tuple[tuple[str, str], ...] = ()
    egress: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    verdict_later: bool = False
    needs_intent: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", tuple(self.nodes))
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
        taken = [name for name in names if is_attempt(name)]
        if taken:
            raise BlueprintInvalid(
                f"blueprint {self.name!r} calls a node {taken[0]!r}: the attempts of steps and "
                "fixes are called so"
            )

    def all_names(self) -> list[str]:
        """Names of all nodes in order, those inside others included."""
        return [node.name for node in self._all()]

    def _all(self) -> list[Node]:
        return [found for node in self.nodes for found in (node, *inner_nodes(node))]
