"""The view of a run, made from its events."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import or_

from contracts.json import as_mapping
from flows.views.spec import Cause, Graph, GraphNode, Paragraph, Part, Table, ViewSpec
from policy.log.data_flow import DataFlow, data_flow
from policy.log.events import Event, History


def run_view(history: History, run_id: str) -> ViewSpec:
    """Return the view of one run."""
    return ViewSpec(title=f"Run {run_id}", parts=run_parts(history, run_id))


def run_parts(history: History, run_id: str) -> tuple[Part, ...]:
    """Return the data flow, the decisions and the numbers of events of a run or a plan."""
    flow = data_flow(history)
    events = _events_of(history, run_id)
    origins = sorted({tag for e in events for name in e.produces for tag in flow.label(name).taint})
    taint = (
        f"Untrusted content came from {', '.join(origins)}." if origins else "Nothing is tainted."
    )
    return (
        Paragraph(text=f"{len(events)} events. {taint}"),
        event_graph(events, flow),
        _decision_table(events),
        _event_counts(events),
    )


def event_graph(events: Iterable[Event], flow: DataFlow) -> Graph:
    """Return a node for each event, with the events that produced the entities it used as causes.

    Causes implied by other causes are omitted. A cause is tainted if an entity from it is.
    """
    drawn = [event for event in events if event.kind != "snapshot"]
    numbers: dict[str, int] = {}
    makers: dict[str, list[Event]] = {}
    # Sets of events are integers with a bit for each: sets of ids took gigabytes for long runs.
    ancestors: dict[str, int] = {}
    nodes: list[GraphNode] = []
    for number, event in enumerate(drawn, 1):
        found = {maker.id: maker for name in event.consumes for maker in makers.get(name, ())}
        implied = reduce(or_, (ancestors[name] for name in found), 0)
        direct = [maker for name, maker in found.items() if not 1 << numbers[name] & implied]
        numbers[event.id] = number
        ancestors[event.id] = reduce(or_, (1 << numbers[name] for name in found), implied)
        causes = [
            Cause(
                number=numbers[maker.id],
                tainted=_is_tainted(set(maker.produces) & set(event.consumes), flow),
            )
            for maker in sorted(direct, key=lambda maker: numbers[maker.id])
        ]
        nodes.append(_node(number, event, tuple(causes), flow))
        for name in event.produces:
            makers.setdefault(name, []).append(event)
    return Graph(title="Data flow", nodes=tuple(nodes))


def event_summary(event: Event) -> str:
    """Return the event in one line."""
    return " · ".join((event.kind.replace("_", " "), *filter(None, _details(event))))


def _events_of(history: History, run_id: str) -> tuple[Event, ...]:
    return tuple(event for event in history.in_order() if event.run_id == run_id)


def _node(number: int, event: Event, causes: tuple[Cause, ...], flow: DataFlow) -> GraphNode:
    new_tags: set[str] = set()
    # Only at the origin: every later node would repeat the tags.
    if event.kind == "egress" or not event.consumes:
        new_tags = {tag for name in event.produces for tag in flow.label(name).taint}
    return GraphNode(
        number=number,
        text=" · ".join((event_summary(event), *sorted(new_tags))),
        tainted=_is_tainted(event.produces or event.consumes, flow),
        denied=event.body.get("verdict") == "denied" or event.body.get("kind") == "refused",
        causes=causes,
    )


def _is_tainted(names: Iterable[str], flow: DataFlow) -> bool:
    return any(flow.label(name).taint for name in names)


def _decision_table(events: Iterable[Event]) -> Table:
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
    return Table(title="Decisions", head=head, rows=rows)


def _verdict(event: Event) -> str:
    """Return the verdict of the policy, and the approval if there is one."""
    verdict, approval = _field(event, "verdict"), _field(event, "approval")
    if not approval:
        return verdict
    return f"{verdict}, {'approved' if event.body.get('approved') is True else 'asked'}: {approval}"


def _event_counts(events: Iterable[Event]) -> Table:
    counts = Counter(event.kind for event in events)
    rows = tuple((kind, str(number)) for kind, number in counts.items())
    return Table(title="Events", head=("kind", "number"), rows=rows)


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
    return str(as_mapping(operation).get("name") or "")


def _field(event: Event, name: str) -> str:
    value = event.body.get(name)
    return "" if value is None else str(value)
