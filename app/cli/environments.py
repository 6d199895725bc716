"""`harness env`: what installs of projects left for later runs, and the images beneath it."""

import shlex
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from app.cli.run import run
from app.terminal.options import AsJson
from app.terminal.output import print_json, print_line, print_result, print_table
from flows.config.settings import load_settings
from flows.execution.wiring import docker_engine, environment_store
from sandbox.built_images import built_images, remove_unused
from sandbox.environments import Environment

app = typer.Typer(no_args_is_help=True)

_BLUEPRINT = "blueprints.library.build_environment:build_environment"
_MB = 1 << 20

Name = Annotated[str, typer.Argument(help="Name of an environment in `harness env list`.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the kept environments, the one used last first."""
    found = environment_store(load_settings()).entries()
    if as_json:
        print_json([_document(one) for one in found])
    elif not found:
        print_line("no environments: the first run on a project keeps one")
    else:
        print_table(
            ("environment", "repository", "size", "install took", "last used"),
            [
                (
                    one.name,
                    one.repository,
                    f"{one.size / _MB:.0f} MB",
                    f"{one.seconds:g} s",
                    _age(one.used),
                )
                for one in found
            ],
        )


@app.command("images")
def images(as_json: AsJson = False) -> None:
    """List the images of toolchains and MCP servers, the newest first."""
    found = built_images(docker_engine())
    if as_json:
        print_json([asdict(one) for one in found])
    elif not found:
        print_line("no images: the first run on a project that needs programs builds one")
    else:
        print_table(
            ("image", "size with base", "built", "packages"),
            [
                (one.name, f"{one.size / _MB:.0f} MB", _age(one.created), " ".join(one.packages))
                for one in found
            ],
        )


@app.command("show")
def show(name: Name, as_json: AsJson = False) -> None:
    """Show one environment: its commit, its install command and its image."""
    one = environment_store(load_settings()).named(name)
    if as_json:
        print_json(_document(one))
        return
    for field, value in _document(one).items():
        shown = shlex.join(one.install) if field == "install" else value
        print_line(f"{field}: {shown}")


@app.command("build")
def build(
    repo: Annotated[str, typer.Option(help="Path or URL of the repository.")] = ".",
    ref: Annotated[str, typer.Option(help="Branch, tag or commit; default HEAD.")] = "",
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An option of the project's blueprints."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Install a project now, so that the next run on it starts from its environment."""
    run(_BLUEPRINT, repo=repo, ref=ref, options=options, as_json=as_json)


@app.command("rm")
def remove(name: Name, as_json: AsJson = False) -> None:
    """Remove an environment; the next run on its project installs anew."""
    store = environment_store(load_settings())
    one = store.named(name)
    is_removed = store.remove(one)
    line = f"removed {name}" if is_removed else f"{name} is in use by a run: try again later"
    print_result({"name": name, "removed": is_removed}, line, as_json)


@app.command("prune")
def prune(
    everything: Annotated[
        bool, typer.Option("--all", help="Remove all environments that no run uses now.")
    ] = False,
    with_images: Annotated[
        bool, typer.Option("--images", help="Remove images too that nothing stands on any more.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove environments over the limit on disk, those not used for the longest time first."""
    settings = load_settings()
    limit = -1 if everything else settings.sandbox.environments_mb * _MB
    removed = environment_store(settings).shrink(limit)
    line = f"removed {len(removed)} environments, {sum(one.size for one in removed) / _MB:.0f} MB"
    document: dict[str, object] = {"removed": [one.name for one in removed]}
    if with_images:
        engine = docker_engine()
        gone = [one.name for one in remove_unused(engine, built_images(engine))]
        line, document = f"{line}, and {len(gone)} images", {**document, "images": gone}
    print_result(document, line, as_json)


def _document(one: Environment) -> dict[str, object]:
    return {"name": one.name, **asdict(one)}


def _age(moment: str) -> str:
    hours = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds() / 3600
    return f"{hours:.0f} h ago" if hours < 48 else f"{hours / 24:.0f} days ago"
