"""`harness events find`: entities by what they mean, or by where they stand."""

from typing import TYPE_CHECKING, Annotated

import typer

from app.terminal.options import AsJson
from app.terminal.out import show, show_json

if TYPE_CHECKING:
    from contracts.entity import Entity


def find(
    text: Annotated[str, typer.Argument(help="What they are about.")] = "",
    near: Annotated[str | None, typer.Option(help="What one step from this entity.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="With --near: so many steps.")] = 1,
    between: Annotated[
        tuple[str, str] | None, typer.Option(help="All on the ways from one to another.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1)] = 10,
    as_json: AsJson = False,
) -> None:
    """Find entities by what they mean, near one, or between two."""
    from contracts.errors import OptionInvalid
    from flows.execution.wiring import open_event_log
    from flows.recall.library import entity_search
    from policy.log import entity_search as graph
    from policy.log.find import between as all_between
    from policy.log.find import near as all_near

    if [bool(text), near is not None, between is not None].count(True) != 1:
        raise OptionInvalid("say one of: TEXT, --near ENTITY, --between ENTITY ENTITY")
    with open_event_log() as log:
        if between is not None:
            start, end = (graph.entity_id_of(log.engine, one) for one in between)
            ahead, behind = graph.onward(log.engine), graph.backward(log.engine)
            scores = dict.fromkeys(sorted(all_between(start, end, ahead, behind)), 0.0)
        elif near is not None:
            start = graph.entity_id_of(log.engine, near)
            found = all_near(start, graph.neighbours(log.engine), steps=steps)
            scores = {name: float(away) for name, away in found.items()}
        else:
            hits = entity_search(log).by_meaning(text, limit=limit)
            scores = {hit.entity.id: hit.distance for hit in hits}
        there = log.entities(scores)
    if as_json:
        show_json([_told(there[name], score) for name, score in scores.items()])
    elif not scores:
        show("nothing found")
    for name, score in scores.items() if not as_json else ():
        show(_line(there[name], score))


def _told(entity: "Entity", score: float) -> dict[str, object]:
    import json

    from policy.log.events import entity_line

    return {"id": entity.id, "distance": round(score, 4), **json.loads(entity_line(entity))}


def _line(entity: "Entity", score: float) -> str:
    from nodes.text import inert

    taint = ", ".join(sorted(entity.label.taint)) or "clean"
    return inert(f"{entity.id[:12]} {score:.2f} {entity.origin} ({taint})")
