"""Which secrets an agent has read: whoever goes on with its conversation knows them still."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from contracts.model_access import GuardBounds
from contracts.run import without_attempt
from flows.runs.from_trajectory import NodeRules, TrajectoryEvents
from flows.runs.request import ResolvedRequest
from providers.read_trajectory import parse_event


def node_rules(request: ResolvedRequest, bounds: GuardBounds | None) -> Mapping[str, NodeRules]:
    """What the agent of each node is held to."""
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
    """The files with secrets that the agent of this node has read, in whichever attempt.

    `upto` is how much of the trajectory counts, in bytes; None: all of it.
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
    """The node that a line of the trajectory is about, whichever attempt it was."""
    return without_attempt(str(line.get("node", "")))


def _lines(path: Path, upto: int | None) -> Iterator[Mapping[str, object]]:
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n") or (upto is not None and file.tell() > upto):
                return
            event = parse_event(line)
            if event is not None:
                yield event
