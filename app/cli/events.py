"""`harness events`: inspect, search, verify and export the event log."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from app.terminal.files import write_file
from app.terminal.options import MAX_ROWS, AsJson, resolve_run_id
from app.terminal.output import print_json, print_line, print_message, print_result
from app.terminal.views import view_text
from contracts.entity import Entity
from contracts.errors import OptionInvalid
from flows.audit.policies import POLICIES
from flows.config.settings import load_settings
from flows.execution.wiring import open_event_log
from flows.plans.dependencies import plan_dependencies
from flows.plans.view import view_of
from flows.runs.runs import is_known
from flows.views.export import export_lines, prov_document, read_export
from flows.views.markdown import mermaid, view_markdown
from flows.views.run import event_summary
from flows.views.spec import Graph, ViewSpec
from nodes.text import strip_control_characters
from policy.log.data_flow import (
    Hop,
    data_flow,
    entities_derived_from,
    entity_graph,
    find_entity,
    search_entities,
    taint_path,
    within_steps,
)
from policy.log.event_log import EventLog
from policy.log.events import Event, History, Kind, entity_line
from policy.log.replay import replay as replay_history
from policy.log.verify import IntegrityProblem
from policy.log.verify import verify as verify_log

Run = Annotated[str | None, typer.Option("--run", help="Only events of this run.")]
View = Literal["viewspec", "text", "markdown", "mermaid"]
Format = Literal["jsonl", "prov", "viewspec", "text", "markdown", "mermaid"]

app = typer.Typer(no_args_is_help=True)


@app.command("log")
def log(
    run: Run = None,
    kind: Annotated[str | None, typer.Option(help="Only events of this kind.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_ROWS, help="Maximum of events.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show events, newest last."""
    run_id = resolve_run_id(run)
    with open_event_log() as opened:
        events = opened.events(run_id, kind=_kind(kind), limit=limit)
        found = events or run_id is None or opened.events(run_id, limit=1)
    if not found and run_id is not None and not is_known(load_settings().runs, run_id):
        raise _no_such_run(run_id)
    print_events(events, as_json)


@app.command("verify")
def verify(
    head: Annotated[
        list[str] | None, typer.Option(help="Id of an event that must exist; repeatable.")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Accept the log as it is as the new last known state.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the whole log for edits, truncation and manipulated clocks."""
    with open_event_log() as opened:
        if accept:
            opened.accept_heads()
        result = verify_log(opened, heads=tuple(head or ()))
    if as_json:
        problems = {"findings": result.findings, "notes": result.notes}
        named = {name: [_problem_json(one) for one in found] for name, found in problems.items()}
        print_json({"ok": result.ok, **asdict(result), **named})
    else:
        for problem in result.findings:
            print_line(f"BAD {problem}")
        for note in result.notes:
            print_line(f"note {note}")
        status = "ok" if result.ok else "BAD"
        print_line(f"{status}: {result.events} events, {result.entities} entities")
        for event_id in result.heads:
            print_line(f"head: {event_id}")
    if not result.ok:
        raise typer.Exit(1)


@app.command("replay")
def replay(run: Run = None, as_json: AsJson = False) -> None:
    """Compute all decisions and labels again by the policy of their time, and compare."""
    with open_event_log() as opened:
        result = replay_history(_history(opened, resolve_run_id(run)), POLICIES)
    if as_json:
        print_json({"same": result.same, **asdict(result)})
    else:
        for difference in result.differences:
            print_line(f"BAD {difference}")
        word = "identical" if result.same else f"{len(result.differences)} differences"
        print_line(f"{result.decisions} decisions and {result.entities} labels: {word}")
    if not result.same:
        raise typer.Exit(1)


@app.command("taint")
def taint(
    entity: Annotated[str, typer.Argument(help="Id of an entity or event, or its beginning.")],
    as_json: AsJson = False,
) -> None:
    """Show the tags of an entity, the path by which each tag got there, and what depends on it."""
    with open_event_log() as opened:
        history = opened.history()
    flow, name = data_flow(history), find_entity(history, entity)
    label, origin = flow.label(name), history.entities[name].origin
    paths = {tag: taint_path(flow, name, tag) for tag in sorted(label.caps | label.taint)}
    derived = sorted(entities_derived_from(flow, name))
    if as_json:
        print_json(
            {
                "entity": name,
                "origin": origin,
                "caps": sorted(label.caps),
                "taint": sorted(label.taint),
                "ways": {tag: [_hop(hop, history) for hop in path] for tag, path in paths.items()},
                "led_to": derived,
            }
        )
        return
    print_line(f"{strip_control_characters(origin)} ({name})")
    print_line(f"caps: {', '.join(sorted(label.caps)) or 'none'}")
    print_line(f"taint: {', '.join(sorted(label.taint)) or 'none'}")
    for tag, path in paths.items():
        print_line(f"path of {tag}:")
        for hop in path:
            print_line(f"  {_hop(hop, history)['origin']}")
    print_line(f"{len(derived)} entities depend on it")


@app.command("find")
def find(
    text: Annotated[str, typer.Argument(help="Words that the entities contain.")] = "",
    near: Annotated[str | None, typer.Option(help="Find entities near this entity.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Maximum distance, with --near.")] = 1,
    between: Annotated[
        tuple[str, str] | None, typer.Option(help="Find entities on the paths between these two.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=MAX_ROWS, help="Maximum of entities, with TEXT.")
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """Find entities by words, near another entity, or between two."""
    if [bool(text.strip()), near is not None, between is not None].count(True) != 1:
        raise OptionInvalid("give one of TEXT, --near ENTITY, --between ENTITY ENTITY")
    distances: dict[str, int] = {}
    with open_event_log() as log:
        history = log.history()
    if between is not None:
        start, end = (find_entity(history, one) for one in between)
        names = sorted(entity_graph(history).between(start, end))
        found = [history.entities[name] for name in names if name in history.entities]
    elif near is not None:
        start = find_entity(history, near)
        distances = within_steps(start, entity_graph(history).neighbours, steps=steps)
        found = [history.entities[name] for name in distances if name in history.entities]
    else:
        found = search_entities(history, text, limit=limit)
    if as_json:
        print_json([_entity_json(entity, distances.get(entity.id)) for entity in found])
    elif not found:
        print_line("nothing found")
    else:
        print_line("\n".join(_entity_line(entity, distances.get(entity.id)) for entity in found))


@app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="File to write; - writes to stdout.")],
    run: Run = None,
    format_: Annotated[
        Format, typer.Option("--format", help="Output format; only jsonl can be merged.")
    ] = "jsonl",
    as_json: AsJson = False,
) -> None:
    """Write the log, or the part or the view of one run, to a file."""
    if run is None and format_ in get_args(View):
        raise OptionInvalid(f"--format {format_} shows one run: name it with --run")
    if as_json and str(file) == "-":
        raise OptionInvalid("--json prints a summary on stdout: name a file, or omit --json")
    if run is not None and format_ == "jsonl":
        raise OptionInvalid("--format jsonl always exports the whole log: omit --run")
    run = resolve_run_id(run)
    with open_event_log() as opened:
        history = _history(opened, run)
    text = _exported(history, run or "", format_)
    if str(file) == "-":
        sys.stdout.write(text)
        return
    write_file(file, text)
    number = len(history.events)
    document = {"files": [str(file)], "events": number}
    print_result(document, f"wrote {number} events to {file}", as_json)


@app.command("merge")
def merge(
    file: Annotated[Path, typer.Argument(help="File that `export` wrote on another machine.")],
    as_json: AsJson = False,
) -> None:
    """Add the events of another machine's log; known events are skipped."""
    try:
        with file.open(encoding="utf-8") as lines:
            other = read_export(line.rstrip("\n") for line in lines)
    except (OSError, UnicodeDecodeError) as error:
        raise OptionInvalid(f"cannot read {str(file)!r}: {error}") from error
    with open_event_log() as opened:
        new = opened.merge(other)
        heads = opened.head().heads
    known = len(other.events) - new
    document = {"new": new, "known": known, "heads": heads}
    print_result(document, f"{new} new events, {known} known events", as_json)
    if new:
        print_message(
            "note: to detect truncation, store the head of `harness events verify` elsewhere too"
        )


def print_events(events: tuple[Event, ...], as_json: bool) -> None:
    """Print events, one line each, or as a JSON array."""
    if as_json:
        print_json([{"id": event.id, **json.loads(event.line)} for event in events])
    elif not events:
        print_line("no events: every run writes some")
    else:
        for event in events:
            head = f"{event.id[:12]} {event.at:%Y-%m-%d %H:%M:%S} {event.run_id}"
            print_line(f"{head} {strip_control_characters(event_summary(event))}")


def _problem_json(problem: IntegrityProblem) -> dict[str, str]:
    return {"where": problem.where, "what": problem.problem}


def _history(opened: EventLog, run: str | None) -> History:
    history = opened.history(run)
    if run is not None and not history.events:
        raise _no_such_run(run)
    return history


def _no_such_run(run: str) -> OptionInvalid:
    return OptionInvalid(f"the event log has no run {run!r}: `harness runs list` lists the runs")


def _kind(word: str | None) -> Kind | None:
    found: Kind | None = next((kind for kind in get_args(Kind) if kind == word), None)
    if word is not None and found is None:
        raise OptionInvalid(f"no events of kind {word!r}; kinds: {', '.join(get_args(Kind))}")
    return found


def _hop(hop: Hop, history: History) -> dict[str, object]:
    entity = history.entities.get(hop.entity)
    return {
        "entity": hop.entity,
        "origin": strip_control_characters(entity.origin) if entity is not None else "unknown",
        "event": hop.event.id if hop.event is not None else None,
    }


def _entity_json(entity: Entity, distance: int | None) -> dict[str, object]:
    known = {} if distance is None else {"distance": distance}
    return {"id": entity.id, **known, **json.loads(entity_line(entity))}


def _entity_line(entity: Entity, distance: int | None) -> str:
    taint_tags = ", ".join(sorted(entity.label.taint)) or "clean"
    known = "" if distance is None else f" {distance}"
    return strip_control_characters(f"{entity.id[:12]}{known} {entity.origin} ({taint_tags})")


def _exported(history: History, run: str, format_: Format) -> str:
    match format_:
        case "jsonl":
            return "".join(f"{line}\n" for line in export_lines(history))
        case "prov":
            return json.dumps(prov_document(history), indent=1, default=dict) + "\n"
        case _:
            with plan_dependencies(load_settings()) as dependencies:
                return _rendered(view_of(dependencies, run), format_)


def _rendered(view: ViewSpec, format_: View) -> str:
    match format_:
        case "viewspec":
            return view.model_dump_json(indent=1) + "\n"
        case "text":
            return view_text(view)
        case "markdown":
            return view_markdown(view)
        case "mermaid":
            return mermaid(next(part for part in view.parts if isinstance(part, Graph)))
