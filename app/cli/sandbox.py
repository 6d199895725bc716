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
from flows.config.settings import load_settings
from flows.execution.wiring import docker_engine, sandbox_owner
from sandbox.images import AGENTS_RECIPE, BASE_RECIPE, ensure_image
from sandbox.reap import list_sandboxes
from sandbox.reap import reap as remove_leftovers

app = typer.Typer(no_args_is_help=True)


@app.command("build")
def build(
    agents: Annotated[
        bool, typer.Option("--agents", help="Build the image with `claude` and `pi`.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Rebuild the image even if it is current.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Pull or build the base image; an image that is current is left unchanged."""
    recipe = AGENTS_RECIPE if agents else BASE_RECIPE
    image = ensure_image(docker_engine(), recipe, print_message, force=force)
    print_result({"image": image}, image, as_json)


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
