"""`harness sandbox`: the base image, and the containers and snapshots of this home."""

from dataclasses import asdict
from typing import Annotated

import typer

from app.terminal.options import AsJson
from app.terminal.output import (
    print_json,
    print_line,
    print_message,
    print_result,
    print_table,
)
from contracts.errors import OptionInvalid
from flows.config.settings import load_settings
from flows.execution.toolchain import agents_image
from flows.execution.wiring import docker_engine, sandbox_owner
from nodes.agents.table import agent_rows
from sandbox.images import ensure_image
from sandbox.reap import list_sandboxes
from sandbox.reap import reap as remove_leftovers

app = typer.Typer(no_args_is_help=True)


@app.command("build")
def build(
    agents: Annotated[
        str,
        typer.Option(
            "--agents", metavar="NAMES", help="Build the image with these agents, or with `all`."
        ),
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Rebuild the image even if it is current.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Pull or build the base image; an image that is current is left unchanged."""
    recipe = agents_image(_named_agents(agents))
    image = ensure_image(docker_engine(), recipe, print_message, force=force)
    print_result({"image": image}, image, as_json)


def _named_agents(names: str) -> list[str]:
    load_settings()  # which may name agents
    if names == "all":
        return list(agent_rows())
    named = [name.strip() for name in names.split(",") if name.strip()]
    for name in named:
        if name not in agent_rows():
            raise OptionInvalid(f"no agent {name!r}; known: {', '.join(agent_rows())}")
    return named


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the sandboxes of this home, including leftovers."""
    found = list_sandboxes(docker_engine(), sandbox_owner(load_settings()))
    if as_json:
        print_json([{**asdict(info), "state": info.state} for info in found])
    elif not found:
        print_line("no sandboxes")
    else:
        print_table(
            ("container", "run", "until", "state"),
            [(s.id[:12], s.run_id or "-", str(s.deadline), s.state) for s in found],
        )


@app.command("reap")
def reap(
    everything: Annotated[
        bool, typer.Option("--all", help="Also remove sandboxes that active runs are using.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove containers and snapshots that no run needs."""
    owner = sandbox_owner(load_settings())
    removed = remove_leftovers(docker_engine(), owner, everything=everything)
    containers, snapshots = removed.containers, removed.snapshots
    line = f"removed {len(containers)} containers and {len(snapshots)} snapshots"
    print_result({"containers": containers, "images": snapshots}, line, as_json)
