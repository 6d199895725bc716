"""`harness notes types`: finer words for kinds of notes, and which of them come first."""

from dataclasses import asdict
from typing import Annotated

import typer

from app.terminal.options import AsJson
from app.terminal.output import print_json, print_result
from app.terminal.present import print_table

app = typer.Typer(help="Note types and their priorities.", no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List note types, the most important first."""
    from flows.recall.library import configured_notebook

    with configured_notebook() as book:
        found = book.types.list()
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        rows = [(t.name, t.type, str(t.priority), t.description) for t in found]
        print_table(("note type", "type", "priority", "description"), rows)


@app.command("set")
def set_(
    name: Annotated[str, typer.Argument(help="Its name; a known one is changed.")],
    type_: Annotated[
        str | None, typer.Option("--type", help="Preference, Constraint, Context, Example, Issue.")
    ] = None,
    priority: Annotated[int | None, typer.Option(help="0 to 1000; higher comes first.")] = None,
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    as_json: AsJson = False,
) -> None:
    """Keep a note type of your own, or change one."""
    from flows.recall.library import configured_notebook
    from memory.notes.content import BASE_TYPES, match_word
    from memory.notes.types import NoteType

    with configured_notebook() as book:
        old = next((one for one in book.types.list() if one.name.lower() == name.lower()), None)
        base = old or NoteType(name=name, type="Context", priority=50)
        made = book.types.save(
            NoteType(
                name=base.name,
                type=base.type if type_ is None else match_word("type", type_, BASE_TYPES),
                priority=base.priority if priority is None else priority,
                description=base.description if description is None else description,
            )
        )
    print_result(asdict(made), f"{made.name}: {made.type}, priority {made.priority}", as_json)


@app.command("rm")
def rm(
    name: Annotated[str, typer.Argument(help="One that no note has.")], as_json: AsJson = False
) -> None:
    """Forget a note type of your own."""
    from flows.recall.library import configured_notebook

    with configured_notebook() as book:
        book.types.remove(name)
    print_result({"deleted": name}, f"deleted note type {name}", as_json)
