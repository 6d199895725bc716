"""`harness blueprints`: which there are, what is in one, whether it would run."""

from dataclasses import asdict
from textwrap import indent
from typing import TYPE_CHECKING, Annotated

import typer

from app.terminal.options import AsJson
from app.terminal.output import print_json, print_line
from app.terminal.present import print_table
from contracts.agents import NATIVE
from contracts.errors import BlueprintInvalid

if TYPE_CHECKING:
    from blueprints.types import Blueprint

Ref = Annotated[str, typer.Argument(help="A name, or path/to/file.py:attribute.")]

app = typer.Typer(help="Which blueprints there are, and what is in one.", no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the blueprints that are built in or installed."""
    from blueprints.find import installed_blueprints

    known = installed_blueprints()
    if as_json:
        print_json([_entry(name, found) for name, found in known.items()])
    else:
        rows = [(name, _does(found)) for name, found in known.items()]
        print_table(("blueprint", "what it does"), rows)


@app.command("show")
def show_(blueprint: Ref, as_json: AsJson = False) -> None:
    """Show the nodes and options of a blueprint."""
    from blueprints.find import find_blueprint

    found = find_blueprint(blueprint)
    if as_json:
        print_json(_document(found))
    else:
        _show(found)


@app.command("check")
def check(
    blueprint: Ref,
    intent: Annotated[str, typer.Option(help="The intent that prompts are made with.")] = "…",
    agent: Annotated[str, typer.Option(help="Who is to do nodes that name no agent.")] = NATIVE,
    as_json: AsJson = False,
) -> None:
    """Dry run: show every node and prompt; nothing is executed."""
    from blueprints.dry_run import dry_run
    from blueprints.find import find_blueprint
    from flows.runs.request import agentic_nodes
    from nodes.agents.allowed_tools import check_allowed_tools

    found = find_blueprint(blueprint)
    planned = dry_run(found, intent=intent)
    for asked in agentic_nodes(found):
        check_allowed_tools(asked.agent or agent, asked.allowed_tools)
    if as_json:
        print_json([asdict(node) for node in planned])
        return
    for node in planned:
        print_line(f"{node.name} ({node.type}): {node.description}")
        if node.allowed_tools is not None:
            print_line(f"  tools: {', '.join(node.allowed_tools)}")
        if node.prompt is not None:
            print_line(indent(node.prompt.strip(), "  | "))
    print_line(f"ok: {len(planned)} nodes, nothing was executed")


def _entry(name: str, found: "Blueprint | BlueprintInvalid") -> dict[str, str | None]:
    if isinstance(found, BlueprintInvalid):
        return {"name": name, "description": "", "error": str(found)}
    return {"name": name, "description": found.description, "error": None}


def _does(found: "Blueprint | BlueprintInvalid") -> str:
    return f"BROKEN: {found}" if isinstance(found, BlueprintInvalid) else found.description


def _show(found: "Blueprint") -> None:
    from blueprints.dry_run import dry_run

    print_line(f"{found.name}: {found.description}")
    nodes = dry_run(found)
    print_table(("node", "type", "what it does"), [(n.name, n.type, n.description) for n in nodes])
    for name, meaning in found.options.items():
        print_line(f"--set {name}=…  {meaning}")


def _document(found: "Blueprint") -> dict[str, object]:
    from blueprints.dry_run import dry_run

    return {
        "name": found.name,
        "description": found.description,
        "nodes": [asdict(node) for node in dry_run(found)],
        "options": dict(found.options),
    }
