"""`harness agents`: how many notes and examples each agent is given, and chosen how."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from app.terminal.options import AsJson
from app.terminal.output import print_json, print_result
from app.terminal.present import print_table

if TYPE_CHECKING:
    from memory.notes.agent_settings import AgentSettings

Name = Annotated[str, typer.Argument(help="An agent, such as native.")]

app = typer.Typer(help="What each agent is given of notes and examples.", no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List agents and their settings."""
    from flows.recall.library import configured_notebook

    with configured_notebook() as book:
        found = [book.agent_settings(name) for name in book.agents]
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        rows = [(one.agent, _notes(one), _examples(one), str(one.budget_tokens)) for one in found]
        print_table(("agent", "notes", "examples", "tokens"), rows)


@app.command("show")
def show(agent: Name, as_json: AsJson = False) -> None:
    """Show one agent's settings."""
    from flows.recall.library import configured_notebook

    with configured_notebook() as book:
        found = book.agent_settings(agent)
    _tell(found, as_json)


@app.command("set")
def set_(
    agent: Name,
    inject_notes: Annotated[bool | None, typer.Option("--notes/--no-notes")] = None,
    max_notes: Annotated[int | None, typer.Option(help="1 to 20.")] = None,
    note_strategy: Annotated[str | None, typer.Option(help="Relevant, Recent or All.")] = None,
    inject_examples: Annotated[bool | None, typer.Option("--examples/--no-examples")] = None,
    max_examples: Annotated[int | None, typer.Option(help="1 to 10.")] = None,
    example_strategy: Annotated[str | None, typer.Option(help="Semantic, Recent or Rated.")] = None,
    budget_tokens: Annotated[int | None, typer.Option(help="For both together.")] = None,
    version: Annotated[int | None, typer.Option(help="Refuse at another version.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change an agent's settings; what is not named stays."""
    from flows.recall.library import configured_notebook

    named = {
        "inject_notes": inject_notes,
        "max_notes": max_notes,
        "note_strategy": note_strategy,
        "inject_examples": inject_examples,
        "max_examples": max_examples,
        "example_strategy": example_strategy,
        "budget_tokens": budget_tokens,
        "version": version,
    }
    given = {name: value for name, value in named.items() if value is not None}
    with configured_notebook() as book:
        asked = replace(book.agent_settings(agent), **given)  # type: ignore[arg-type]  # the fields' own types
        after = book.save_agent_settings(asked)
    _tell(after, as_json)


def _tell(found: "AgentSettings", as_json: bool) -> None:
    line = f"{found.agent}: notes {_notes(found)}; examples {_examples(found)}"
    print_result(asdict(found), f"{line}; {found.budget_tokens} tokens", as_json)


def _notes(found: "AgentSettings") -> str:
    return f"{found.max_notes} {found.note_strategy}" if found.inject_notes else "none"


def _examples(found: "AgentSettings") -> str:
    return f"{found.max_examples} {found.example_strategy}" if found.inject_examples else "none"
