"""`harness ui`: the pages, served until interrupted."""

from typing import Annotated

import typer

from app.terminal.output import print_json, print_message


def ui(
    host: Annotated[
        str | None, typer.Option(help="Other than loopback, a token is asked for.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="0 takes any free one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Serve the pages for runs and memory; Ctrl-C ends it."""
    from app.web.serve import PagesAddress, pages_address, serve
    from flows.config.settings import load_settings

    def ready(where: PagesAddress) -> None:
        if as_json:
            print_json({"url": where.url})
        else:
            print_message(f"pages: {where.url} (Ctrl-C ends this)")

    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    serve(pages_address(load_settings().ui.model_copy(update=given)), ready)
