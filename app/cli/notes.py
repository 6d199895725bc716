"""`harness notes`: manage notes, the statements that agents are given, and their types."""

import sys
from dataclasses import asdict, replace
from typing import Annotated, TypeVar

import typer

from app.cli.entries import (
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
    add_shared_commands,
    current_author,
    edit_entry,
    list_entries,
    new_entry_fields,
    print_entry,
    with_options,
)
from app.terminal.options import AsJson, resolve_run_id
from app.terminal.output import print_json, print_message, print_result, print_table
from flows.config.settings import load_settings
from flows.recall.library import configured_notebook
from memory.notes.content import BASE_TYPES, match_word
from memory.notes.injection import fits_budget, injection_json
from memory.notes.notebook import Notebook
from memory.notes.types import BaseType, Entry, EntryContent, Note, NoteContent, NoteType
from memory.scope import Scope

N = TypeVar("N", Note, NoteContent)

TypeOption = Annotated[
    str | None, typer.Option("--type", help="Preference, Constraint, Context, Example or Issue.")
]
NoteTypeOption = Annotated[
    str | None, typer.Option("--note-type", help="A type of `harness notes types`.")
]

app = typer.Typer(no_args_is_help=True)
types = typer.Typer(help="Manage note types and their priorities.", no_args_is_help=True)
app.add_typer(types, name="types")


@app.command("add")
def add(
    text: Annotated[str, typer.Argument(help="What an agent should know; - reads stdin.")],
    type_: TypeOption = None,
    note_type: NoteTypeOption = None,
    agent: Agent = None,
    user: User = None,
    company: Company = None,
    pending: Pending = False,
    days: Days = None,
    protected: Protected = None,
    run: Annotated[str | None, typer.Option(help="The run that the note comes from.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add a note for all agents, or for an agent, a user or a company."""
    words = sys.stdin.read() if text == "-" else text
    fields = new_entry_fields(agent, user, company, pending=pending, days=days, protected=protected)
    with configured_notebook() as book:
        content = _with_types(book, NoteContent(text=words, **vars(fields)), type_, note_type)
        note = book.add(content, author=current_author(), source_run=resolve_run_id(run))
        _warn_if_too_long(book, note)
    print_entry(note, "added", as_json)


@app.command("list")
def list_(
    status: StatusFilter = None,
    type_: TypeOption = None,
    note_type: NoteTypeOption = None,
    agent: Agent = None,
    user: User = None,
    company: Company = None,
    text: ContainsText = "",
    run: FromRun = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List notes, the last changed first."""
    list_entries(
        "note",
        status=status,
        type_=type_,
        note_type=note_type,
        agent=agent,
        user=user,
        company=company,
        text=text,
        run=run,
        limit=limit,
        as_json=as_json,
    )


@app.command("edit")
def edit(
    note: Ref,
    text: Annotated[str | None, typer.Option(help="New text.")] = None,
    type_: TypeOption = None,
    note_type: NoteTypeOption = None,
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
    """Change a note; without options, in $EDITOR. An empty scope option clears the scope."""
    options = (text, type_, note_type, agent, user, company, days, protected)

    def change(book: Notebook, before: Entry) -> EntryContent | None:
        if not isinstance(before, Note) or all(option is None for option in options):
            return None
        wanted = with_options(before, agent, user, company, days=days, protected=protected)
        wanted = wanted if text is None else replace(wanted, text=text)
        return _with_types(book, wanted, type_, note_type)

    edit_entry("note", note, change, file=file, version=version, undo=undo, as_json=as_json)


add_shared_commands(app, "note")


@app.command("preview")
def preview(
    task: Annotated[str, typer.Argument(help="Task of the agent.")] = "",
    agent: Annotated[str | None, typer.Option(help="Agent; the configured one by default.")] = None,
    user: Annotated[str | None, typer.Option(help="User of the run.")] = None,
    company: Annotated[str | None, typer.Option(help="Company of the run.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print exactly the notes and examples that an agent would get for a task."""
    viewer = Scope(agent=agent or load_settings().agent, user=user, company=company)
    with configured_notebook() as book:
        injection = book.inject(viewer, task)
    omitted = [f"omitted: {one.entry.id}: {one.reason}" for one in injection.omitted]
    lines = [injection.text or "no note or example matches", *injection.reasons, *omitted]
    print_result(injection_json(injection), "\n".join(lines), as_json)


@types.command("list")
def list_types(as_json: AsJson = False) -> None:
    """List note types, the highest priority first."""
    with configured_notebook() as book:
        found = book.types.list()
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        rows = [(one.name, one.type, str(one.priority), one.description) for one in found]
        print_table(("note type", "type", "priority", "description"), rows)


@types.command("set")
def set_type(
    name: Annotated[str, typer.Argument(help="Name of a new or existing note type.")],
    type_: TypeOption = None,
    priority: Annotated[
        int | None, typer.Option(help="0 to 1000; a higher priority comes first.")
    ] = None,
    description: Annotated[str | None, typer.Option(help="Purpose of the note type.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add a note type, or change one; options that are not given stay unchanged."""
    with configured_notebook() as book:
        old = next((one for one in book.types.list() if one.name.lower() == name.lower()), None)
        base = old or NoteType(name=name, type="Context", priority=50)
        saved = book.types.save(
            NoteType(
                name=base.name,
                type=base.type if type_ is None else match_word("type", type_, BASE_TYPES),
                priority=base.priority if priority is None else priority,
                description=base.description if description is None else description,
            )
        )
    line = f"{saved.name}: {saved.type}, priority {saved.priority}"
    print_result(asdict(saved), line, as_json)


@types.command("rm")
def remove_type(
    name: Annotated[str, typer.Argument(help="A note type that no note uses.")],
    as_json: AsJson = False,
) -> None:
    """Delete a note type of your own."""
    with configured_notebook() as book:
        book.types.remove(name)
    print_result({"deleted": name}, f"deleted note type {name}", as_json)


def _with_types(book: Notebook, content: N, type_: str | None, note_type: str | None) -> N:
    """Return the content with the given types; a note type implies its base type."""
    if note_type is not None:
        known = {one.name.lower(): one.type for one in book.types.list()}
        implied: BaseType = known.get(note_type.lower(), content.type)
        base = implied if type_ is None else match_word("type", type_, BASE_TYPES)
        return replace(content, note_type=note_type, type=base)
    if type_ is not None:
        return replace(content, type=match_word("type", type_, BASE_TYPES), note_type="")
    return content


def _warn_if_too_long(book: Notebook, note: Note) -> None:
    for name in book.agents:
        budget = book.agent_settings(name).budget_tokens
        if note.scope.agent in (None, name) and not fits_budget(note, budget):
            print_message(
                f"note: agent {name} never gets it: it is longer than the budget of {budget} tokens"
            )
