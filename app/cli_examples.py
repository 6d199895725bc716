"""`harness examples`: what was asked, what was answered, how good that was."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli_entries import (
    Agent,
    AsJson,
    Company,
    Days,
    File,
    Pending,
    Protected,
    Ref,
    Refs,
    User,
    Version,
    change_each,
    governed,
    list_entries,
    me,
    rewrite,
    show_entry,
    tell_entry,
    until,
)

if TYPE_CHECKING:
    from memory.note_types import Content, Entry
    from memory.notebook import Notebook

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
    from flows.library import notebook
    from memory.note_types import ExampleContent

    known = governed(agent, user, company, pending=pending, days=days, protected=protected)
    good = 100 if score is None else score
    content = ExampleContent(input=input_, output=output, score=good, **vars(known))
    with notebook() as book:
        made = book.add(content, author=me(), source_run=run)
    tell_entry(made, "kept", as_json)


@app.command("list")
def list_(
    status: Annotated[str | None, typer.Option(help="Pending, Active or Revoked.")] = None,
    agent: Agent = None,
    user: User = None,
    company: Company = None,
    text: Annotated[str, typer.Option(help="With all of these words.")] = "",
    run: Annotated[str | None, typer.Option(help="From this run.")] = None,
    best: Annotated[bool, typer.Option("--best", help="The best score first.")] = False,
    limit: Annotated[int | None, typer.Option(min=0)] = None,
    as_json: AsJson = False,
) -> None:
    """List examples, the newest change first."""
    from memory.note_content import STATUSES, one_of
    from memory.note_types import Where

    where = Where(
        status=one_of("status", status, STATUSES) if status else None,
        agent=agent,
        user=user,
        company=company,
        text=text,
        source_run=run,
        sort="score" if best else "updated",
        limit=limit,
    )
    list_entries("example", where, as_json)


@app.command("show")
def show(
    example: Ref,
    history: Annotated[bool, typer.Option("--history", help="Every version.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one example."""
    show_entry("example", example, history, as_json)


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
    undo: Annotated[bool, typer.Option("--undo", help="Take the last change back.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change an example; without options, in $EDITOR. An empty scope option clears it."""
    from memory.note_json import read_document
    from memory.note_types import Example

    if undo:
        change_each(
            "example", [example], lambda book, ref, by: book.undo(ref, author=by), "undid", as_json
        )
        return
    given = {"agent": agent, "user": user, "company": company}
    named = {name: value or None for name, value in given.items() if value is not None}
    options = (input_, output, score, days, protected)

    def change(_: "Notebook", before: "Entry") -> "Content | None":
        if file is not None:
            return read_document(file.read_text(), "example")
        if not isinstance(before, Example) or not (named or any(o is not None for o in options)):
            return None
        wanted = replace(
            before,
            input=before.input if input_ is None else input_,
            output=before.output if output is None else output,
            score=before.score if score is None else score,
            scope=replace(before.scope, **named),
            expires_at=before.expires_at if days is None else until(days),
        )
        if protected is None:
            return wanted
        return replace(wanted, protection="Protected" if protected else "Normal")

    rewrite("example", example, change, version, as_json)


@app.command("approve")
def approve(examples: Refs, as_json: AsJson = False) -> None:
    """Make examples Active: agents are given them from now on."""
    change_each("example", examples, lambda b, r, by: b.approve(r, author=by), "approved", as_json)


@app.command("revoke")
def revoke(examples: Refs, as_json: AsJson = False) -> None:
    """Give examples to nobody any more; they stay to be looked at."""
    change_each("example", examples, lambda b, r, by: b.revoke(r, author=by), "revoked", as_json)


@app.command("rm")
def rm(examples: Refs, as_json: AsJson = False) -> None:
    """Delete examples for good, with their history."""
    change_each("example", examples, lambda book, ref, _: book.remove(ref), "deleted", as_json)


@app.command("preview")
def preview(
    example: Ref,
    as_json: AsJson = False,
) -> None:
    """Print an example exactly as a prompt holds it."""
    from app.cli_tell import tell
    from flows.library import notebook
    from memory.note_render import show_example

    with notebook() as book:
        found = book.get(example, "example")
    text = show_example(found)
    tell({"id": found.id, "text": text}, text, as_json)
