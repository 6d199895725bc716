"""What a person sees of a run, made of its events. Pure."""

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
    """The page of one run."""
    flow = data_flow(history)
    events = tuple(event for event in history.in_order() if event.run_id == run_id)
    origins = sorted({tag for e in events for name in e.produces for tag in flow.label(name).taint})
    about = f"{len(events)} events. " + (
        f"Untrusted content came from {', '.join(origins)}." if origins else "Nothing is tainted."
    )
    return ViewSpec(
        title=f"Run {run_id}",
        parts=(
            Paragraph(text=about),
            event_graph(events, flow),
            _decisions(events),
            _counts(events),
        ),
    )


def run_graph(history: History, run_id: str) -> Graph:
    """The data flow of one run."""
    events = (event for event in history.in_order() if event.run_id == run_id)
    return event_graph(events, data_flow(history))


def event_graph(events: Iterable[Event], flow: DataFlow) -> Graph:
    """One box for each event, and an arrow where one used what another made.

    Arrows that others imply are left out. An arrow is tainted when what went along it was.
    """
    drawn = [event for event in events if event.kind != "snapshot"]
    makers: dict[str, list[Event]] = {}
    own: dict[str, int] = {}  # a bit for each event: sets of ids would take gigabytes
    before: dict[str, int] = {}
    edges: list[GraphEdge] = []
    for number, event in enumerate(drawn):
        direct = _makers(event, makers)
        implied = reduce(or_, (before[e.id] for e in direct), 0)
        own[event.id] = 1 << number
        before[event.id] = reduce(or_, (own[e.id] for e in direct), implied)
        for maker in direct:
            if not own[maker.id] & implied:
                edges.append(
                    GraphEdge(
                        source=maker.id,
                        target=event.id,
                        tainted=_tainted(set(maker.produces) & set(event.consumes), flow),
                    )
                )
        for name in event.produces:
            makers.setdefault(name, []).append(event)
    return Graph(title="Data flow", nodes=tuple(_box(e, flow) for e in drawn), edges=tuple(edges))


def event_summary(event: Event) -> str:
    """What happened, in a few words."""
    return " · ".join((event.kind.replace("_", " "), *filter(None, _words(event))))


def _makers(event: Event, makers: Mapping[str, list[Event]]) -> list[Event]:
    found = {maker.id: maker for name in event.consumes for maker in makers.get(name, ())}
    return list(found.values())


def _box(event: Event, flow: DataFlow) -> GraphNode:
    return GraphNode(
        id=event.id,
        text=" · ".join((event_summary(event), *_origins(event, flow))),
        tainted=_tainted(event.produces or event.consumes, flow),
        denied=_denied(event),
    )


def _origins(event: Event, flow: DataFlow) -> list[str]:
    """The tags that came in with this event."""
    if event.consumes and event.kind != "egress":
        return []
    return sorted({_inert(tag) for name in event.produces for tag in flow.label(name).taint})


def _tainted(names: Iterable[str], flow: DataFlow) -> bool:
    return any(flow.label(name).taint for name in names)


def _denied(event: Event) -> bool:
    return event.body.get("verdict") == "denied" or event.body.get("kind") == "refused"


def _decisions(events: Iterable[Event]) -> ViewTable:
    decisions = [event for event in events if event.kind == "decision"]
    return ViewTable(
        title="Decisions",
        head=("node", "asked", "verdict", "rule", "reason"),
        rows=tuple(
            (
                _said(event, "node"),
                _asked(event),
                _verdict(event),
                _said(event, "rule") or _said(event, "policy"),
                _said(event, "reason"),
            )
            for event in decisions
        ),
    )


def _verdict(event: Event) -> str:
    """The policy's word, and the person's where there was one to be had."""
    verdict, approval = _said(event, "verdict"), _said(event, "approval")
    if not approval:
        return verdict
    return f"{verdict}, {'approved' if event.body.get('approved') is True else 'asked'}: {approval}"


def _counts(events: Iterable[Event]) -> ViewTable:
    counted = Counter(event.kind for event in events)
    rows = tuple((kind, str(number)) for kind, number in counted.items())
    return ViewTable(title="Events", head=("kind", "number"), rows=rows)


def _words(event: Event) -> Iterator[str]:
    match event.kind:
        case "decision":
            yield from (_asked(event), _said(event, "verdict"))
        case "egress":
            yield from (f"{_said(event, 'host')}:{_said(event, 'port')}", _said(event, "kind"))
        case "approval" | "endorsement":
            yield from (_said(event, "op"), _said(event, "status"))
        case "model_call":
            yield from (_said(event, "node"), _said(event, "model").split("/")[-1])
        case "report":
            yield _said(event, "status")
        case _:
            for name in ("node", "op", "blueprint", "call", "commit", "status"):
                yield _said(event, name)[: 8 if name == "commit" else 40]


def _asked(event: Event) -> str:
    """The tool of an agent's call, or the operation of a plan's step."""
    question = event.body.get("question")
    if not isinstance(question, Mapping):
        return _said(event, "op")
    asked = question.get("call") or question.get("operation")
    return _inert(str(as_mapping(asked).get("name") or ""))


def _said(event: Event, name: str) -> str:
    value = event.body.get(name)
    return "" if value is None else _inert(str(value))


def _inert(text: str) -> str:
    """Without what moves a cursor, turns the direction of writing or is no XML."""
    return "".join(char if char.isprintable() else " " for char in text)
