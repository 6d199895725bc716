"""`harness repl`: prompts in, plans, decisions and events out, as they happen."""

import sys
from typing import Annotated

import typer

from app.terminal.options import AllowChange


def repl(
    repo: Annotated[str, typer.Option(help="Folder, git repository or URL to work on.")] = ".",
    grant: Annotated[
        list[str] | None, typer.Option(metavar="CAP", help="A capability of every plan.")
    ] = None,
    allow_change: AllowChange = None,
    model: Annotated[str | None, typer.Option(help="Who plans; scripted/<file> works.")] = None,
) -> None:
    """Type prompts; see plans, decisions and events live. `:help` tells the rest."""
    from rich.console import Console

    from app.repl import Repl
    from flows.config.settings import load_settings
    from flows.plans.dependencies import plan_dependencies
    from flows.runs.check_request import check_patterns

    check_patterns(allow_change or ())
    settings = load_settings()
    with plan_dependencies(settings, planner=model) as shop:
        Repl(
            shop=shop,
            settings=settings,
            console=Console(highlight=False, markup=False, emoji=False, soft_wrap=True),
            repo=repo,
            grants=frozenset(grant or ()),
            allow_change=tuple(allow_change or ()),
        ).loop(sys.stdin)
