"""A blueprint: a named, ordered list of nodes."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from blueprints.outputs import connected
from contracts.errors import BlueprintInvalid
from contracts.run import is_attempt
from nodes.agents.allowed_tools import with_mcp_tools
from nodes.field_checks import FieldChecks, place_of_caller
from nodes.issue import ISSUE_OPTIONS
from nodes.types import Node, Output, check_nodes, inner_nodes, step_names

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
    """Names that `--set name=value` accepts, with their meaning; with outputs on an issue, also
    `issue`."""
    egress: Sequence[str] = ()
    """Hosts that the commands need, in addition to those that the operator allows."""
    changes: Sequence[str] = ()
    """Globs on whole paths of protected files that the blueprint is meant to change, such as
    `**/uv.lock`."""
    mcp: Sequence[str] = ()
    """Tools of MCP servers that every agent may use, as `SERVER:TOOL`, such as `tracker:get_*`."""
    verdict_later: bool = False
    """Playbooks learn nothing from a successful run until a person says whether it helped."""
    reads_checks: bool = False
    """The logs of the failed checks of the commit that the run starts from are added to the intent,
    as a quote."""
    needs_intent: bool = False
    """A run without an intent is refused before it starts."""

    place: str = field(default="", compare=False, repr=False)
    """File and line where the blueprint is written; found out if empty."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", self.place or place_of_caller())
        self._check_fields()
        for name in ("nodes", "egress", "changes", "mcp"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "nodes", connected(self.nodes))
        if any(isinstance(node, Output) and node.is_about_issue for node in self.nodes):
            object.__setattr__(self, "options", {**ISSUE_OPTIONS, **self.options})
        names = self.all_names()
        counts = Counter((*names, *(name for node in self._all() for name in step_names(node))))
        doubled = [name for name, count in counts.items() if count > 1]
        if doubled:
            raise self.checks.invalid(
                f"uses a node name twice: {', '.join(map(repr, doubled))}; "
                "a step counts too, as 'node/step'"
            )
        # Results of attempts are matched to their step by name.
        reserved = [name for name in names if is_attempt(name)]
        if reserved:
            raise self.checks.invalid(
                f"has a node {reserved[0]!r}: names of this form are reserved for attempts at "
                "steps and fixes"
            )

    @property
    def checks(self) -> FieldChecks:
        """Checks whose messages name this blueprint."""
        return FieldChecks("blueprint", self.name, self.place)

    def _check_fields(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise self.checks.invalid(
                "has a name that is not usable: lower-case letters, digits and hyphens only, at "
                "most 63, because the branch is named after it"
            )
        self.checks.text("description", self.description)
        check_nodes(self.checks, "nodes", self.nodes)
        self.checks.each("egress", self.egress, str, "names of hosts")
        self.checks.each("changes", self.changes, str, "globs on paths")
        self.checks.each("mcp", self.mcp, str, "SERVER:TOOL")
        try:
            with_mcp_tools((), self.mcp)
        except BlueprintInvalid as error:
            raise self.checks.invalid(f"has a bad tool in mcp: {error}") from error
        self.checks.flag("verdict_later", self.verdict_later)
        self.checks.flag("reads_checks", self.reads_checks)
        self.checks.flag("needs_intent", self.needs_intent)
        if not isinstance(self.options, Mapping):
            raise self.checks.wrong("options", self.options, "a mapping of names to meanings")
        for name, meaning in self.options.items():
            self.checks.text("options", name)
            self.checks.text(f"options[{name!r}]", meaning)
            if not name.strip() or "=" in name:
                raise self.checks.invalid(f"has an option {name!r}, which --set cannot name")

    def all_names(self) -> list[str]:
        """Return the names of all nodes in order, including nodes inside other nodes."""
        return [node.name for node in self._all()]

    def _all(self) -> list[Node]:
        return [found for node in self.nodes for found in (node, *inner_nodes(node))]
