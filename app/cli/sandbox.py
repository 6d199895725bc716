"""`harness sandbox`: the base image, what is running, what was left behind."""

from dataclasses import asdict
from typing import Annotated

import typer

from app.terminal.options import AsJson
from app.terminal.output import print_json, print_line, print_message, print_result
from app.terminal.present import print_table

app = typer.Typer(help="The base image and the containers of ours.", no_args_is_help=True)


@app.command("build")
def build(
    agents: Annotated[
        bool, typer.Option("--agents", help="The image with `claude` and `pi`.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Build it anew.")] = False,
    as_json: AsJson = False,
) -> None:
    """Pull or build the base image; nothing happens when it is up to date."""
    from flows.execution.wiring import docker_engine
    from sandbox.images import ensure_agents, ensure_base

    ensure = ensure_agents if agents else ensure_base
    image = ensure(docker_engine(), on_line=print_message, force=force)
    print_result({"image": image}, image, as_json)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the sandboxes of ours, those that nobody needs any more included."""
    from flows.config.settings import load_settings
    from flows.execution.wiring import docker_engine, sandbox_owner
    from sandbox.reap import list_sandboxes

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
        bool, typer.Option("--all", help="Also those that a living run is using.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove containers and snapshots that nobody needs any more."""
    from flows.config.settings import load_settings
    from flows.execution.wiring import docker_engine, sandbox_owner
    from sandbox.reap import reap as reap_leftovers

    reaped = reap_leftovers(docker_engine(), sandbox_owner(load_settings()), everything=everything)
    if as_json:
        print_json(reaped._asdict())
    else:
        print_line(
            f"removed {len(reaped.containers)} containers and {len(reaped.snapshots)} snapshots"
        )
