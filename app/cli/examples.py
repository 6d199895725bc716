"""`harness examples`: what was asked, what was answered, how good that was."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

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
from app.terminal.output import print_result
from app.terminal.run_ids import resolve_run_id

if TYPE_CHECKING:
    from memory.notes.notebook import Notebook
    from memory.notes.types import Entry, EntryContent

Score = Annotated[int | None, typer.Option(help="How good the answer was, 0 to 100.")]

app = typer.Typer(help="Examples that agents are given, by scope.", no_args_is_help=True)


@app.command("add")
def add(
    input_: Annotated[str, typer.Argument(metavar="INPUT", help="What was asked.")],
    output: Annotated[str, typer.Argument(help="What was answered.")],
    score: Score = None,
    agent: Agent = None,
    user: User = None,
    company: Company = None,
    pending: Pending = False,
    days: Days = None,
    protected: Protected = None,
    run: Annotated[str | None, typer.Option(help="The run that it comes from.")] = None,
    as_json: AsJson = False,
) -> None:
    """Keep an example; agents whose agent, user and company fit are given it."""
    from flows.recall.library import configured_notebook
    from memory.notes.types import ExampleContent

    known = new_entry_fields(agent, user, company, pending=pending, days=days, protected=protected)
    good = 100 if score is None else score
    content = ExampleContent(input=input_, output=output, score=good, **vars(known))
    with configured_notebook() as book:
        made = book.add(content, author=current_author(), source_run=resolve_run_id(run))
    print_entry(made, "kept", as_json)


@app.command("list")
def list_(
    status: StatusFilter = None,
    agent: Agent = None,
    user: User = None,
    company: Company = None,
    text: ContainsText = "",
    run: FromRun = None,
    best: Annotated[bool, typer.Option("--best", help="The best score first.")] = False,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List examples, the newest change first."""
    from memory.notes.content import ENTRY_STATUSES, match_word
    from memory.notes.types import EntryFilter

    where = EntryFilter(
        status=match_word("status", status, ENTRY_STATUSES) if status else None,
        agent=agent,
        user=user,
        company=company,
        text=text,
        source_run=resolve_run_id(run),
        sort="score" if best else "updated",
        limit=limit,
    )
    list_entries("example", where, as_json)


@app.command("edit")
def edit(
    example: Ref,
    input_: Annotated[str | None, typer.Option("--input", help="What was asked.")] = None,
    output: Annotated[str | None, typer.Option(help="What was answered.")] = None,
    score: Score = None,
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
    """Change an example; without options, in $EDITOR. An empty scope option clears it."""
    from memory.notes.content import parse_edited_json
    from memory.notes.types import Example

    if undo:
        undo_last("example", example, as_json)
        return
    options = (input_, output, score, agent, user, company, days, protected)

    def change(_: "Notebook", before: "Entry") -> "EntryContent | None":
        if file is not None:
            return parse_edited_json(read_file(file), "example", before)
        if not isinstance(before, Example) or all(option is None for option in options):
            return None
        wanted = with_options(before, agent, user, company, days=days, protected=protected)
        return replace(
            wanted,
            input=before.input if input_ is None else input_,
            output=before.output if output is None else output,
            score=before.score if score is None else score,
        )

    edit_entry("example", example, change, version, as_json)


entry_commands(app, "example")


@app.command("preview")
def preview(
    example: Ref,
    as_json: AsJson = False,
) -> None:
    """Print an example exactly as a prompt holds it."""
    from flows.recall.library import configured_notebook
    from memory.notes.render import render_example

    with configured_notebook() as book:
        found = book.get(example, "example")
    text = render_example(found)
    print_result({"id": found.id, "text": text}, text, as_json)
