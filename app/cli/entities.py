"""`harness events find`: entities by words, or by which was made from which."""

from typing import TYPE_CHECKING, Annotated

import typer

from app.terminal.options import MAX_ROWS, AsJson
from app.terminal.output import print_json, print_line

if TYPE_CHECKING:
    from contracts.entity import Entity


def find(
    text: Annotated[str, typer.Argument(help="Words that they contain.")] = "",
    near: Annotated[str | None, typer.Option(help="Entities near this one.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="With --near: the number of steps.")] = 1,
    between: Annotated[
        tuple[str, str] | None, typer.Option(help="Entities on the paths from one to another.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=MAX_ROWS, help="With TEXT: at most so many.")
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """Find entities by words, near another entity, or between two."""
    from contracts.errors import OptionInvalid
    from flows.execution.wiring import open_event_log
    from policy.log.search import entity_graph, find_entity, search_entities, within_steps

    if [bool(text.strip()), near is not None, between is not None].count(True) != 1:
        raise OptionInvalid("say one of: TEXT, --near ENTITY, --between ENTITY ENTITY")
    steps_of: dict[str, int] = {}
    with open_event_log() as log:
        history = log.history()
    if between is not None:
        start, end = (find_entity(history, one) for one in between)
        names = sorted(entity_graph(history).between(start, end))
        found = [history.entities[name] for name in names if name in history.entities]
    elif near is not None:
        start = find_entity(history, near)
        steps_of = within_steps(start, entity_graph(history).neighbours, steps=steps)
        found = [history.entities[name] for name in steps_of if name in history.entities]
    else:
        found = search_entities(history, text, limit=limit)
    if as_json:
        print_json([_as_json(entity, steps_of.get(entity.id)) for entity in found])
    elif not found:
        print_line("nothing found")
    for entity in found if not as_json else ():
        print_line(_line(entity, steps_of.get(entity.id)))


def _as_json(entity: "Entity", steps: int | None) -> dict[str, object]:
    import json

    from policy.log.events import entity_line

    distance = {} if steps is None else {"distance": steps}
    return {"id": entity.id, **distance, **json.loads(entity_line(entity))}


def _line(entity: "Entity", steps: int | None) -> str:
    from nodes.text import strip_control_characters

    taint = ", ".join(sorted(entity.label.taint)) or "clean"
    distance = "" if steps is None else f" {steps}"
    return strip_control_characters(f"{entity.id[:12]}{distance} {entity.origin} ({taint})")
