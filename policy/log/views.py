"""Views of a run, computed from its events."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import or_

from contracts.json import as_mapping
from policy.log.events import Event
from policy.log.history import History
from policy.log.taint import DataFlow, data_flow
from policy.log.view_spec import Graph, GraphEdge, GraphNode, Paragraph, ViewSpec, ViewTable


def run_view(history: History, run_id: str) -> ViewSpec:
    """Return the page of one run."""
    flow = data_flow(history)
    events = _events_of(history, run_id)
    origins = sorted({tag for e in events for name in e.produces for tag in flow.label(name).taint})
    taint = (
        f"Untrusted content came from {', '.join(origins)}." if origins else "Nothing is tainted."
    )
    return ViewSpec(
        title=f"Run {run_id}",
        parts=(
            Paragraph(text=f"{len(events)} events. {taint}"),
            event_graph(events, flow),
            _decision_table(events),
            _event_counts(events),
        ),
    )


def run_graph(history: History, run_id: str) -> Graph:
    """Return the data flow of one run."""
    return event_graph(_events_of(history, run_id), data_flow(history))


def event_graph(events: Iterable[Event], flow: DataFlow) -> Graph:
    """Return a node for each event, and an edge where one used an entity that another produced.

    Edges implied by others are omitted. An edge is tainted if an entity on it is.
    """
    drawn = [event for event in events if event.kind != "snapshot"]
    makers: dict[str, list[Event]] = {}
    # Sets of events are integers with a bit for each: sets of ids took gigabytes for long runs.
    bit: dict[str, int] = {}
    ancestors: dict[str, int] = {}
    edges: list[GraphEdge] = []
    for number, event in enumerate(drawn):
        found = {maker.id: maker for name in event.consumes for maker in makers.get(name, ())}
        causes = list(found.values())
        implied = reduce(or_, (ancestors[cause.id] for cause in causes), 0)
        bit[event.id] = 1 << number
        ancestors[event.id] = reduce(or_, (bit[cause.id] for cause in causes), implied)
        for cause in causes:
            if not bit[cause.id] & implied:
                shared = set(cause.produces) & set(event.consumes)
                tainted = _is_tainted(shared, flow)
                edges.append(GraphEdge(source=cause.id, target=event.id, tainted=tainted))
        for name in event.produces:
            makers.setdefault(name, []).append(event)
    nodes = tuple(_node(event, flow) for event in drawn)
    return Graph(title="Data flow", nodes=nodes, edges=tuple(edges))


def event_summary(event: Event) -> str:
    """Return the event in one line."""
    return " · ".join((event.kind.replace("_", " "), *filter(None, _details(event))))


def _events_of(history: History, run_id: str) -> tuple[Event, ...]:
    return tuple(event for event in history.in_order() if event.run_id == run_id)


def _node(event: Event, flow: DataFlow) -> GraphNode:
    new_tags: set[str] = set()
    if event.kind == "egress" or not event.consumes:
        new_tags = {_inert(tag) for name in event.produces for tag in flow.label(name).taint}
    return GraphNode(
        id=event.id,
        text=" · ".join((event_summary(event), *sorted(new_tags))),
        tainted=_is_tainted(event.produces or event.consumes, flow),
        denied=event.body.get("verdict") == "denied" or event.body.get("kind") == "refused",
    )


def _is_tainted(names: Iterable[str], flow: DataFlow) -> bool:
    return any(flow.label(name).taint for name in names)


def _decision_table(events: Iterable[Event]) -> ViewTable:
    rows = tuple(
        (
            _field(event, "node"),
            _decided_operation(event),
            _verdict(event),
            _field(event, "rule") or _field(event, "policy"),
            _field(event, "reason"),
        )
        for event in events
        if event.kind == "decision"
    )
    head = ("node", "asked", "verdict", "rule", "reason")
    return ViewTable(title="Decisions", head=head, rows=rows)


def _verdict(event: Event) -> str:
    """Return the verdict of the policy, and the approval if there is one."""
    verdict, approval = _field(event, "verdict"), _field(event, "approval")
    if not approval:
        return verdict
    return f"{verdict}, {'approved' if event.body.get('approved') is True else 'asked'}: {approval}"


def _event_counts(events: Iterable[Event]) -> ViewTable:
    counts = Counter(event.kind for event in events)
    rows = tuple((kind, str(number)) for kind, number in counts.items())
    return ViewTable(title="Events", head=("kind", "number"), rows=rows)


def _details(event: Event) -> Iterator[str]:
    match event.kind:
        case "decision":
            yield from (_decided_operation(event), _field(event, "verdict"))
        case "egress":
            yield from (f"{_field(event, 'host')}:{_field(event, 'port')}", _field(event, "kind"))
        case "approval" | "endorsement":
            yield from (_field(event, "op"), _field(event, "status"))
        case "model_call":
            yield from (_field(event, "node"), _field(event, "model").split("/")[-1])
        case "report":
            yield _field(event, "status")
        case _:
            for name in ("node", "op", "blueprint", "call", "commit", "status"):
                yield _field(event, name)[: 8 if name == "commit" else 40]


def _decided_operation(event: Event) -> str:
    """Return the name of the agent's tool, or of the operation of a plan's step."""
    inputs = event.body.get("question")
    if not isinstance(inputs, Mapping):
        return _field(event, "op")
    operation = inputs.get("call") or inputs.get("operation")
    return _inert(str(as_mapping(operation).get("name") or ""))


def _field(event: Event, name: str) -> str:
    value = event.body.get(name)
    return "" if value is None else _inert(str(value))


def _inert(text: str) -> str:
    """Return the text without control characters and direction marks, which XML may not hold."""
    return "".join(char if char.isprintable() else " " for char in text)
