"""`harness blueprints`: list, inspect and check blueprints."""

from dataclasses import asdict
from pathlib import Path
from textwrap import indent
from typing import Annotated

import typer

from app.terminal.options import AsJson
from app.terminal.output import print_json, print_line, print_result, print_table
from blueprints.dry_run import dry_run
from blueprints.find import find_blueprint, installed_blueprints, is_markdown
from blueprints.markdown import first_blueprint, parse_markdown
from contracts.agents import NATIVE
from contracts.errors import BadInput, BlueprintInvalid
from flows.config.settings import load_settings
from nodes.agents.allowed_tools import check_allowed_tools

Ref = Annotated[str, typer.Argument(help="A name, path/to/file.md or path/to/file.py:attribute.")]

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List built-in and installed blueprints."""
    found = [
        {
            "name": name,
            "description": "" if isinstance(one, BlueprintInvalid) else one.description,
            "error": str(one) if isinstance(one, BlueprintInvalid) else None,
        }
        for name, one in installed_blueprints().items()
    ]
    if as_json:
        print_json(found)
    else:
        rows = [
            (
                str(one["name"]),
                f"BROKEN: {one['error']}" if one["error"] else str(one["description"]),
            )
            for one in found
        ]
        print_table(("blueprint", "description"), rows)


@app.command("show")
def show(blueprint: Ref, as_json: AsJson = False) -> None:
    """Show the nodes and options of a blueprint."""
    load_settings()  # which may name agents
    found = find_blueprint(blueprint)
    nodes = dry_run(found)
    if as_json:
        print_json(
            {
                "name": found.name,
                "description": found.description,
                "nodes": [asdict(node) for node in nodes],
                "options": dict(found.options),
            }
        )
        return
    print_line(f"{found.name}: {found.description}")
    rows = [(node.name, node.type, node.description) for node in nodes]
    print_table(("node", "type", "description"), rows)
    for name, meaning in found.options.items():
        print_line(f"--set {name}=…  {meaning}")


@app.command("new")
def new(
    file: Annotated[str, typer.Argument(metavar="NAME.md", help="The file to write.")],
    as_json: AsJson = False,
) -> None:
    """Write a first blueprint in Markdown, with comments; it works as it is."""
    path = Path(file)
    if not is_markdown(file):
        raise BadInput(f"{file!r} must end in .md: a blueprint in Markdown is written there")
    text = first_blueprint(path)
    made = parse_markdown(text, file)
    try:
        with path.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except (OSError, ValueError) as error:
        raise BadInput(f"{file!r} cannot be written: {error}") from error
    said = f"{file}: blueprint {made.name!r} is written. Next: harness blueprints check {file}"
    print_result({"name": made.name, "file": file}, said, as_json)


@app.command("check")
def check(
    blueprint: Ref,
    intent: Annotated[str, typer.Option(help="Intent to build the prompts with.")] = "…",
    agent: Annotated[str, typer.Option(help="Agent for nodes that do not name one.")] = NATIVE,
    as_json: AsJson = False,
) -> None:
    """Show every node and prompt without executing anything."""
    load_settings()  # which may name agents
    found = find_blueprint(blueprint)
    planned = dry_run(found, intent=intent)
    check_allowed_tools(agent, None)
    if as_json:
        print_json([asdict(node) for node in planned])
        return
    for node in planned:
        print_line(f"{node.name} ({node.type}): {node.description}")
        if node.allowed_tools is not None:
            print_line(f"  tools: {', '.join(node.allowed_tools)}")
        if node.permits is not None:
            print_line(f"  permits: {node.permits}")
        if node.needs_options:
            print_line(f"  only with --set: {node.needs_options}")
        if node.prompt is not None:
            print_line(indent(node.prompt.strip(), "  | "))
    print_line(f"ok: {len(planned)} nodes, nothing was executed")
