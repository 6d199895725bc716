"""`harness events`: what happened, whether it is whole, and what led to what."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.terminal.files import write_file
from app.terminal.options import MAX_ROWS, AsJson
from app.terminal.output import print_json, print_line, print_message, print_result
from app.terminal.run_ids import resolve_run_id

if TYPE_CHECKING:
    from contracts.errors import OptionInvalid
    from policy.log.event_log import EventLog
    from policy.log.events import Event, Kind
    from policy.log.history import History
    from policy.log.taint import Hop

Run = Annotated[str | None, typer.Option("--run", help="Only of this run.")]
Format = Literal["jsonl", "prov", "markdown", "mermaid"]

app = typer.Typer(help="The event log: what happened, and what led to what.", no_args_is_help=True)


@app.command("log")
def log(
    run: Run = None,
    kind: Annotated[str | None, typer.Option(help="Only of this kind.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_ROWS, help="The newest so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show events, the newest last."""
    from flows.config.settings import load_settings
    from flows.execution.wiring import open_event_log
    from flows.runs.runs import is_known

    run_id = resolve_run_id(run)
    with open_event_log() as opened:
        events = opened.events(run_id, kind=_kind(kind), limit=limit)
        known = events or run_id is None or opened.events(run_id, limit=1)
    if not known and run_id is not None and not is_known(load_settings().runs, run_id):
        raise _no_such_run(run_id)
    _show(events, as_json)


def run_events(
    run: Annotated[str, typer.Argument(help="A run id, or the beginning of one.")],
    as_json: AsJson = False,
) -> None:
    """Show all events of one run."""
    from flows.config.settings import load_settings
    from flows.execution.wiring import open_event_log
    from flows.runs.runs import find_run

    run_id = find_run(load_settings().runs, run).name
    with open_event_log() as opened:
        _show(opened.events(run_id), as_json)


@app.command("verify")
def verify(
    head: Annotated[
        list[str] | None, typer.Option(help="An event that you know must be there; repeatable.")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Keep the head as it is now, after you looked.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Look for edits, cuts and forged clocks in the whole log."""
    from flows.execution.wiring import open_event_log
    from policy.log.verify import verify as look

    with open_event_log() as opened:
        if accept:
            opened.accept_heads()
        found = look(opened, heads=tuple(head or ()))
    if as_json:
        print_json({"ok": found.ok, **asdict(found)})
    else:
        for finding in found.findings:
            print_line(f"BAD {finding}")
        for note in found.notes:
            print_line(f"note {note}")
        print_line(
            f"{'ok' if found.ok else 'BAD'}: {found.events} events, {found.entities} entities"
        )
        for one in found.heads:
            print_line(f"head: {one}")
    if not found.ok:
        raise typer.Exit(1)


@app.command("replay")
def replay(run: Run = None, as_json: AsJson = False) -> None:
    """Decide everything again by the policy of that time; compare decisions and labels."""
    from flows.audit.policies import POLICIES
    from flows.execution.wiring import open_event_log
    from policy.log.replay import replay as again

    with open_event_log() as opened:
        done = again(_history(opened, resolve_run_id(run)), POLICIES)
    if as_json:
        print_json({"same": done.same, **asdict(done)})
    else:
        for difference in done.differences:
            print_line(f"BAD {difference}")
        word = "the same" if done.same else f"{len(done.differences)} differences"
        print_line(f"{done.decisions} decisions and {done.entities} labels again: {word}")
    if not done.same:
        raise typer.Exit(1)


@app.command("taint")
def taint(
    entity: Annotated[str, typer.Argument(help="The id of an entity or event, or its beginning.")],
    as_json: AsJson = False,
) -> None:
    """Show what an entity carries, how that came there, and what was made of it."""
    from flows.execution.wiring import open_event_log
    from nodes.text import strip_control_characters
    from policy.log.search import find_entity
    from policy.log.taint import data_flow, entities_derived_from, taint_path

    with open_event_log() as opened:
        history = opened.history()
    flow, name = data_flow(history), find_entity(history, entity)
    label = flow.label(name)
    ways = {tag: taint_path(flow, name, tag) for tag in sorted(label.caps | label.taint)}
    after = sorted(entities_derived_from(flow, name))
    if as_json:
        print_json(
            {
                "entity": name,
                "origin": history.entities[name].origin,
                "caps": sorted(label.caps),
                "taint": sorted(label.taint),
                "ways": {tag: [_hop(hop, history) for hop in way] for tag, way in ways.items()},
                "led_to": after,
            }
        )
        return
    print_line(f"{strip_control_characters(history.entities[name].origin)} ({name})")
    print_line(f"caps: {', '.join(sorted(label.caps)) or 'none'}")
    print_line(f"taint: {', '.join(sorted(label.taint)) or 'none'}")
    for tag, way in ways.items():
        print_line(f"{tag} came by:")
        for hop in way:
            print_line(f"  {_hop(hop, history)['origin']}")
    print_line(f"led to {len(after)} entities")


@app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="The file to write; - for stdout.")],
    run: Run = None,
    format_: Annotated[
        Format, typer.Option("--format", help="Only jsonl can be merged.")
    ] = "jsonl",
    as_json: AsJson = False,
) -> None:
    """Write the log, or one run of it, to a file."""
    from contracts.errors import OptionInvalid
    from flows.execution.wiring import open_event_log

    if run is None and format_ in ("markdown", "mermaid"):
        raise OptionInvalid(f"--format {format_} shows one run: name it with --run")
    if as_json and str(file) == "-":
        raise OptionInvalid("--json tells on stdout what was written: name a file, or leave it out")
    if run is not None and format_ == "jsonl":
        raise OptionInvalid("--format jsonl holds a whole log, so that it can be merged: no --run")
    run = resolve_run_id(run)
    with open_event_log() as opened:
        history = _history(opened, run)
    text = _exported(history, run or "", format_)
    if str(file) == "-":
        sys.stdout.write(text)
        return
    write_file(file, text)
    print_result(
        {"files": [str(file)], "events": len(history.events)},
        f"wrote {len(history.events)} events to {file}",
        as_json,
    )


@app.command("merge")
def merge(
    file: Annotated[Path, typer.Argument(help="What `export` wrote on another machine.")],
    as_json: AsJson = False,
) -> None:
    """Take in the log of another machine; the same file twice changes nothing."""
    from contracts.errors import OptionInvalid
    from flows.execution.wiring import open_event_log
    from policy.log.jsonl import read_export

    try:
        with file.open(encoding="utf-8") as lines:
            theirs = read_export(line.rstrip("\n") for line in lines)
    except (OSError, UnicodeDecodeError) as error:
        raise OptionInvalid(f"cannot read {str(file)!r}: {error}") from error
    with open_event_log() as opened:
        new = opened.merge(theirs)
        head = opened.tip().heads
    known = len(theirs.events) - new
    print_result(
        {"new": new, "known": known, "heads": head},
        f"{new} new events, {known} were known",
        as_json,
    )
    if new:
        print_message(
            "note: keep the head elsewhere too, if you want to see a cut: `harness events verify`"
        )


def _history(opened: "EventLog", run: str | None) -> "History":
    history = opened.history(run)
    if run is not None and not history.events:
        raise _no_such_run(run)
    return history


def _no_such_run(run: str) -> "OptionInvalid":
    from contracts.errors import OptionInvalid

    return OptionInvalid(f"the event log knows no run {run!r}: `harness runs list` names them")


def _kind(said: str | None) -> "Kind | None":
    from typing import get_args

    from contracts.errors import OptionInvalid
    from policy.log.events import Kind

    found: Kind | None = next((kind for kind in get_args(Kind) if kind == said), None)
    if said is not None and found is None:
        raise OptionInvalid(f"no events of kind {said!r}; there are {', '.join(get_args(Kind))}")
    return found


def _show(events: "tuple[Event, ...]", as_json: bool) -> None:
    from nodes.text import strip_control_characters
    from policy.log.views import event_summary

    if as_json:
        print_json([{"id": event.id, **json.loads(event.line)} for event in events])
    elif not events:
        print_line("no events: every run writes some")
    for event in events if not as_json else ():
        summary = strip_control_characters(event_summary(event))
        print_line(f"{event.id[:12]} {event.at:%Y-%m-%d %H:%M:%S} {event.run_id} {summary}")


def _hop(hop: "Hop", history: "History") -> dict[str, object]:
    from nodes.text import strip_control_characters

    entity = history.entities.get(hop.entity)
    return {
        "entity": hop.entity,
        "origin": strip_control_characters(entity.origin) if entity is not None else "unknown",
        "event": hop.event.id if hop.event is not None else None,
    }


def _exported(history: "History", run: str, format_: Format) -> str:
    from policy.log import jsonl
    from policy.log.prov import prov_document
    from policy.log.view_text import mermaid, view_markdown
    from policy.log.views import run_graph, run_view

    match format_:
        case "jsonl":
            return "".join(f"{line}\n" for line in jsonl.export_lines(history))
        case "prov":
            return json.dumps(prov_document(history), indent=1, default=dict) + "\n"
        case "mermaid":
            return mermaid(run_graph(history, run))
        case _:
            return view_markdown(run_view(history, run))
