"""Which files with secrets an agent has read; its saved conversation still contains them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from contracts.model_access import GuardBounds
from contracts.names import without_attempt
from flows.runs.from_trajectory import NodeRules, TrajectoryEvents
from flows.runs.request import ResolvedRequest
from providers.read_trajectory import parse_event


def node_rules(request: ResolvedRequest, bounds: GuardBounds | None) -> Mapping[str, NodeRules]:
    """Return the rules for the agent of each node, by the node's name."""
    return {
        node.name: NodeRules(
            agent=node.agent or request.agent,
            allowed_tools=None if node.allowed_tools is None else tuple(node.allowed_tools),
            bounds=bounds,
        )
        for node in request.agentic_nodes
    }


def secrets_read(
    trajectory: Path, node: str, rules: Mapping[str, NodeRules], *, upto: int | None = None
) -> tuple[str, ...]:
    """Return the files with secrets that a node's agent has read, in all its attempts.

    `upto`: read only that many bytes of the trajectory; None reads all of it.
    """
    name = without_attempt(node)
    if name not in rules or not trajectory.exists():
        return ()
    telling = TrajectoryEvents(run_id="", node=name, rules=rules[name], inputs=())
    for line in _lines(trajectory, upto):
        if node_of_event(line) == name:
            telling.hear(line)
    return telling.secrets


def node_of_event(line: Mapping[str, object]) -> str:
    """Return the name of the node that a trajectory line belongs to, without the attempt."""
    return without_attempt(str(line.get("node", "")))


def _lines(path: Path, upto: int | None) -> Iterator[Mapping[str, object]]:
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n") or (upto is not None and file.tell() > upto):
                return
            event = parse_event(line)
            if event is not None:
                yield event
