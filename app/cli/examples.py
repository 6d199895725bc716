"""`harness examples`: manage examples, the inputs and outputs that agents are given."""

from dataclasses import replace
from typing import Annotated

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
from app.terminal.output import print_result
from flows.recall.library import configured_notebook
from memory.notes.injection import render_example
from memory.notes.notebook import Notebook
from memory.notes.types import Entry, EntryContent, Example, ExampleContent

Score = Annotated[int | None, typer.Option(help="Quality of the output, 0 to 100.")]

app = typer.Typer(no_args_is_help=True)


@app.command("add")
def add(
    input_: Annotated[str, typer.Argument(metavar="INPUT", help="Input, such as a question.")],
    output: Annotated[str, typer.Argument(help="Good output for it.")],
    score: Score = None,
    agent: Agent = None,
    user: User = None,
    company: Company = None,
    pending: Pending = False,
    days: Days = None,
    protected: Protected = None,
    run: Annotated[str | None, typer.Option(help="The run that the example comes from.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add an example for all agents, or for an agent, a user or a company."""
    fields = new_entry_fields(agent, user, company, pending=pending, days=days, protected=protected)
    content = ExampleContent(
        input=input_, output=output, score=100 if score is None else score, **vars(fields)
    )
    with configured_notebook() as book:
        example = book.add(content, author=current_author(), source_run=resolve_run_id(run))
    print_entry(example, "added", as_json)


@app.command("list")
def list_(
    status: StatusFilter = None,
    agent: Agent = None,
    user: User = None,
    company: Company = None,
    text: ContainsText = "",
    run: FromRun = None,
    best: Annotated[bool, typer.Option("--best", help="List the highest score first.")] = False,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List examples, the last changed first."""
    list_entries(
        "example",
        status=status,
        agent=agent,
        user=user,
        company=company,
        text=text,
        run=run,
        best=best,
        limit=limit,
        as_json=as_json,
    )


@app.command("edit")
def edit(
    example: Ref,
    input_: Annotated[str | None, typer.Option("--input", help="New input.")] = None,
    output: Annotated[str | None, typer.Option(help="New output.")] = None,
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
    """Change an example; without options, in $EDITOR. An empty scope option clears the scope."""
    options = (input_, output, score, agent, user, company, days, protected)

    def change(_: Notebook, before: Entry) -> EntryContent | None:
        if not isinstance(before, Example) or all(option is None for option in options):
            return None
        wanted = with_options(before, agent, user, company, days=days, protected=protected)
        return replace(
            wanted,
            input=before.input if input_ is None else input_,
            output=before.output if output is None else output,
            score=before.score if score is None else score,
        )

    edit_entry("example", example, change, file=file, version=version, undo=undo, as_json=as_json)


add_shared_commands(app, "example")


@app.command("preview")
def preview(example: Ref, as_json: AsJson = False) -> None:
    """Print an example exactly as a prompt shows it."""
    with configured_notebook() as book:
        found = book.get(example, "example")
    text = render_example(found)
    print_result({"id": found.id, "text": text}, text, as_json)
