"""`harness agents`: versions of the agents, and how many notes and examples each of them gets."""

from dataclasses import asdict, replace
from typing import Annotated

import typer

from app.terminal.options import AsJson
from app.terminal.output import print_json, print_result, print_table
from flows.config.settings import load_settings
from flows.execution.toolchain import agents_image
from flows.execution.wiring import docker_engine
from flows.recall.library import configured_notebook
from memory.notes.agent_settings import AgentSettings
from nodes.agents.table import agent_rows
from sandbox.images import is_current

Name = Annotated[str, typer.Argument(help="An agent, such as native.")]

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the settings of all agents."""
    with configured_notebook() as book:
        found = [book.agent_settings(name) for name in book.agents]
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        rows = [(one.agent, _notes(one), _examples(one), str(one.budget_tokens)) for one in found]
        print_table(("agent", "notes", "examples", "tokens"), rows)


@app.command("show")
def show(agent: Name, as_json: AsJson = False) -> None:
    """Show the settings of one agent."""
    with configured_notebook() as book:
        found = book.agent_settings(agent)
    _print(found, as_json)


@app.command("versions")
def versions(as_json: AsJson = False) -> None:
    """List the pinned packages of each agent, and whether the image with it is built."""
    load_settings()  # which may name agents
    engine = docker_engine()
    found = [
        {
            "agent": name,
            "packages": list(row.packages),
            "image": agents_image([name]).name,
            "built": is_current(engine, agents_image([name])),
        }
        for name, row in agent_rows().items()
    ]
    if as_json:
        print_json(found)
    else:
        rows = [
            (name, ", ".join(row.packages) or "built in", "yes" if one["built"] else "no")
            for (name, row), one in zip(agent_rows().items(), found, strict=True)
        ]
        print_table(("agent", "packages", "image built"), rows)


@app.command("set")
def set_(
    agent: Name,
    inject_notes: Annotated[
        bool | None, typer.Option("--notes/--no-notes", help="Add notes to prompts.")
    ] = None,
    max_notes: Annotated[int | None, typer.Option(help="Maximum of notes, 1 to 20.")] = None,
    note_strategy: Annotated[
        str | None, typer.Option(help="Selection of notes: Relevant, Recent or All.")
    ] = None,
    inject_examples: Annotated[
        bool | None, typer.Option("--examples/--no-examples", help="Add examples to prompts.")
    ] = None,
    max_examples: Annotated[int | None, typer.Option(help="Maximum of examples, 1 to 10.")] = None,
    example_strategy: Annotated[
        str | None, typer.Option(help="Selection of examples: Semantic, Recent or Rated.")
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(help="Maximum of tokens for notes and examples together.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(help="Refuse the change if the settings have another version.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change settings of an agent; options that are not given stay unchanged."""
    options = {
        "inject_notes": inject_notes,
        "max_notes": max_notes,
        "note_strategy": note_strategy,
        "inject_examples": inject_examples,
        "max_examples": max_examples,
        "example_strategy": example_strategy,
        "budget_tokens": budget_tokens,
        "version": version,
    }
    changes = {name: value for name, value in options.items() if value is not None}
    with configured_notebook() as book:
        wanted = replace(book.agent_settings(agent), **changes)  # type: ignore[arg-type]  # checked when saved
        saved = book.save_agent_settings(wanted)
    _print(saved, as_json)


def _print(found: AgentSettings, as_json: bool) -> None:
    line = f"{found.agent}: notes {_notes(found)}; examples {_examples(found)}"
    print_result(asdict(found), f"{line}; {found.budget_tokens} tokens", as_json)


def _notes(found: AgentSettings) -> str:
    return f"{found.max_notes} {found.note_strategy}" if found.inject_notes else "none"


def _examples(found: AgentSettings) -> str:
    return f"{found.max_examples} {found.example_strategy}" if found.inject_examples else "none"
