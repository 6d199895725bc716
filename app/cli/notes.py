"""`harness notes`: what agents should know, for whom, and who stands for it."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from app.cli import note_types
from app.cli.entries import (
    current_author,
    edit_entry,
    entry_commands,
    list_entries,
    print_entry,
    undo_last,
)
from app.cli.entry_options import (
    Agent,
    Company,
    ContainsText,
    Days,
    File,
    FromRun,
    Limit,
    Pending,
    Protected,
    Ref,
    StatusFilter,
    Undo,
    User,
    Version,
    new_entry_fields,
    with_options,
)
from app.terminal.files import read_file
from app.terminal.options import AsJson
from app.terminal.output import print_message, print_result
from app.terminal.run_ids import resolve_run_id

if TYPE_CHECKING:
    from memory.notes.notebook import Notebook
    from memory.notes.types import BaseType, Entry, EntryContent, Note, NoteContent

    N = TypeVar("N", Note, NoteContent)

Type_ = Annotated[
    str | None, typer.Option("--type", help="Preference, Constraint, Context, Example or Issue.")
]
NoteType_ = Annotated[str | None, typer.Option("--note-type", help="A finer type of your own.")]

app = typer.Typer(help="Notes that agents are given, by scope.", no_args_is_help=True)
app.add_typer(note_types.app, name="types")


@app.command("add")
def add(
    text: Annotated[str, typer.Argument(help="What an agent should know; - for stdin.")],
    type_: Type_ = None,
    note_type: NoteType_ = None,
    agent: Agent = None,
    user: User = None,
    company: Company = None,
    pending: Pending = False,
    days: Days = None,
    protected: Protected = None,
    run: Annotated[str | None, typer.Option(help="The run that taught it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Keep a note; agents whose agent, user and company fit are given it."""
    from flows.recall.library import configured_notebook
    from memory.notes.types import NoteContent

    said = sys.stdin.read() if text == "-" else text
    known = new_entry_fields(agent, user, company, pending=pending, days=days, protected=protected)
    with configured_notebook() as book:
        content = NoteContent(text=said, **vars(known))
        content = _typed(book, content, type_, note_type)
        made = book.add(content, author=current_author(), source_run=resolve_run_id(run))
        _warn(book, made)
    print_entry(made, "kept", as_json)


@app.command("list")
def list_(
    status: StatusFilter = None,
    type_: Type_ = None,
    note_type: NoteType_ = None,
    agent: Agent = None,
    user: User = None,
    company: Company = None,
    text: ContainsText = "",
    run: FromRun = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List notes, the newest change first."""
    from memory.notes.content import BASE_TYPES, ENTRY_STATUSES, match_word
    from memory.notes.types import EntryFilter

    where = EntryFilter(
        status=match_word("status", status, ENTRY_STATUSES) if status else None,
        type=match_word("type", type_, BASE_TYPES) if type_ else None,
        note_type=note_type,
        agent=agent,
        user=user,
        company=company,
        text=text,
        source_run=resolve_run_id(run),
        limit=limit,
    )
    list_entries("note", where, as_json)


@app.command("edit")
def edit(
    note: Ref,
    text: Annotated[str | None, typer.Option(help="What it says from now on.")] = None,
    type_: Type_ = None,
    note_type: NoteType_ = None,
    agent: Agent = None,
    user: User = None,
    company: Company = None,
    days: Days = None,
    protected: Protected = None,
    file: File = None,
    version: Version = None,
    undo: Undo = False,
    as_json: AsJson = False,
) -> None:
    """Change a note; without options, in $EDITOR. An empty scope option clears it."""
    from memory.notes.content import parse_edited_json
    from memory.notes.types import Note

    if undo:
        undo_last("note", note, as_json)
        return
    options = (text, type_, note_type, agent, user, company, days, protected)

    def change(book: "Notebook", before: "Entry") -> "EntryContent | None":
        if file is not None:
            return parse_edited_json(read_file(file), "note", before)
        if not isinstance(before, Note) or all(option is None for option in options):
            return None
        wanted = with_options(before, agent, user, company, days=days, protected=protected)
        return _typed(
            book, wanted if text is None else replace(wanted, text=text), type_, note_type
        )

    edit_entry("note", note, change, version, as_json)


entry_commands(app, "note")


@app.command("preview")
def preview(
    task: Annotated[str, typer.Argument(help="What the agent would be asked.")] = "",
    agent: Annotated[str | None, typer.Option(help="The agent; else the configured one.")] = None,
    user: Annotated[str | None, typer.Option(help="Whose run it would be.")] = None,
    company: Annotated[str | None, typer.Option(help="Of which company.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print exactly what an agent would be given for a task."""
    from flows.config.settings import load_settings
    from flows.recall.library import configured_notebook
    from memory.notes.injection import injection_json
    from memory.scope import Scope

    viewer = Scope(agent=agent or load_settings().agent, user=user, company=company)
    with configured_notebook() as book:
        injection = book.inject(viewer, task)
    left = [f"left out: {one.entry.id}: {one.reason}" for one in injection.omitted]
    lines = [injection.text or "nothing would be given", *injection.reasons, *left]
    print_result(injection_json(injection), "\n".join(lines), as_json)


def _typed(book: "Notebook", content: "N", type_: str | None, note_type: str | None) -> "N":
    """The content with the types that are asked for; a note type brings its own type."""
    from memory.notes.content import BASE_TYPES, match_word

    if note_type is not None:
        known = {one.name.lower(): one.type for one in book.types.list()}
        kind: BaseType = known.get(note_type.lower(), content.type)
        wanted = kind if type_ is None else match_word("type", type_, BASE_TYPES)
        return replace(content, note_type=note_type, type=wanted)
    if type_ is not None:
        return replace(content, type=match_word("type", type_, BASE_TYPES), note_type="")
    return content


def _warn(book: "Notebook", made: "Note") -> None:
    """Say it when some agent could never be given the note."""
    from memory.notes.render import fits_budget

    for name in book.agents:
        budget = book.agent_settings(name).budget_tokens
        if made.scope.agent in (None, name) and not fits_budget(made, budget):
            print_message(f"note: agent {name} is never given it: longer than its {budget} tokens")
